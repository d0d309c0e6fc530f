using '../main.bicep'

param environmentName = 'prod'
param location = 'westeurope'
param principalId = '00000000-0000-0000-0000-0000000000d0'
param adminKey = externalInput('sys.envVar', 'PUSHGRID_ADMIN_KEY')
