using '../main.bicep'

// Each switch is turned in other files of this folder than every other switch: to exchange two changes a snapshot.
param environmentName = 'switches'
param location = 'westeurope'
param adminKey = externalInput('sys.envVar', 'PUSHGRID_ADMIN_KEY')

param allowHttp = true
param probationCountsAttempt = true
param probationEndsEvents = true
param replayHeader = true

param httpAlwaysReady = 2
param budgetAmount = 1
