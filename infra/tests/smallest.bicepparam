using '../main.bicep'

param environmentName = 's'
param location = 'westeurope'
param adminKey = externalInput('sys.envVar', 'PUSHGRID_ADMIN_KEY')

// A secret instead of the certificate of `everything`.
param entraTenant = '00000000-0000-0000-0000-0000000000e0'
param webhookClientId = '00000000-0000-0000-0000-0000000000e1'
param webhookSecretName = 'webhook-secret'

// `switches` has the reason.
param honorRetryAfter = true
param probationCountsAttempt = true
param endpointAnswers = false
param replayHeader = true

param instanceMemoryMB = 512
param maximumInstanceCount = 1
param httpConcurrency = 1
param httpAlwaysReady = 0

param storageSku = 'Standard_LRS'
param payloadRetentionDays = 16
param logRetentionDays = 30
// Without an amount there is no budget; in `switches`, without a start date.
param budgetStartDate = '2027-01-01'
