using '../main.bicep'

// The longest name that is allowed.
param environmentName = 'everything-that-a-deployment-can-have-40'
param location = 'northeurope'
param principalId = '00000000-0000-0000-0000-0000000000d0'
param principalType = 'ServicePrincipal'

param adminKey = externalInput('sys.envVar', 'PUSHGRID_ADMIN_KEY')
param secondAdminKeyName = 'second-admin-key'
param readerKeyName = 'reader-key'
param profile = '2023'
param publicUrl = 'https://events.example.com'
param allowHttp = true
param allowedNetworks = '10.0.0.0/8,192.168.0.0/16'
param caBundleName = 'ca-bundle'
param clientCertificateName = 'client-certificate'
param egressProxy = 'http://proxy.example.com:3128'
param attemptLog = 'all'
param publishLog = 'requests'
param deadletterSchedule = '0 */5 * * * *'
param honorRetryAfter = true
param probationCountsAttempt = true
param traceContext = false
param endpointAnswers = false
param clientIpHeader = 'X-Azure-ClientIP'
param entraTenant = '00000000-0000-0000-0000-0000000000e0'
param entraAudience = 'api://pushgrid,api://pushgrid-test'
param entraManagementAudience = 'api://pushgrid-management'
param webhookClientId = '00000000-0000-0000-0000-0000000000e1'
param webhookCertificateName = 'webhook-certificate'
// With spaces and a comma too many, as people write lists.
param deadletterAccountIds = '/subscriptions/00000000-0000-0000-0000-00000000000a/resourceGroups/archive/providers/Microsoft.Storage/storageAccounts/archive1 , /subscriptions/00000000-0000-0000-0000-00000000000c/resourceGroups/elsewhere/providers/Microsoft.Storage/storageAccounts/archive2,'

param instanceMemoryMB = 4096
param maximumInstanceCount = 100
param httpConcurrency = 32
param httpAlwaysReady = 1

param storageSku = 'Standard_GZRS'
param payloadRetentionDays = 60
param vnetEnabled = true
param logRetentionDays = 90
param logDailyCapGb = 5
param alertEmail = 'operator@example.com'
param budgetAmount = 1
param budgetStartDate = '2027-01-01'
