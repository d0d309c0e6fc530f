using '../main.bicep'

// The longest name that is allowed. Here, and in other texts, a capital letter must stay one.
param environmentName = 'Everything-that-a-deployment-can-have-40'
param location = 'northeurope'
param principalId = '00000000-0000-0000-0000-0000000000d0'
param principalType = 'ServicePrincipal'

param adminKey = externalInput('sys.envVar', 'PUSHGRID_ADMIN_KEY')
param secondAdminKeyName = 'Second-admin-key'
param readerKeyName = 'Reader-key'
param profile = '2023'
param publicUrl = 'https://events.example.com'
param allowHttp = true
param allowedNetworks = '10.0.0.0/8,192.168.0.0/16'
param caBundleName = 'CA-bundle'
param clientCertificateName = 'Client-certificate'
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
param entraAudience = 'api://Pushgrid,api://Pushgrid-test'
param entraManagementAudience = 'api://Pushgrid-management'
param webhookClientId = '00000000-0000-0000-0000-0000000000e1'
param webhookCertificateName = 'Webhook-certificate'
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
param alertEmail = 'Operator@example.com'
param budgetAmount = 1
param budgetStartDate = '2027-01-01'
