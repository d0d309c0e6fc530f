targetScope = 'subscription'

metadata name = 'Pushgrid'
metadata description = 'Push delivery of events on Azure Functions (Flex Consumption) and one storage account.'

import { attemptLogType, instanceMemoryType, principalKindType, profileType, publishLogType, storageSkuType } from 'modules/types.bicep'

// ---- where, and for whom

@description('Name of the environment, from which every name is made.')
@minLength(1)
@maxLength(40)
param environmentName string

@description('Region of every resource.')
@minLength(1)
param location string

@description('Object id of whoever deploys, who then can read the data of the app and make containers for dead letters; empty to grant nothing.')
param principalId string = ''

@description('Kind of the deploying principal.')
param principalType principalKindType = 'User'

// ---- the app

@description('Key of the management API. azd makes one on the first deployment and keeps it for the next ones.')
@secure()
@minLength(32)
@metadata({
  azd: {
    type: 'generate'
    config: {
      length: 40
      noSpecial: true
    }
  }
})
param adminKey string

@description('Name of the Key Vault secret with a second key of the management API, valid beside the first; empty for none.')
param secondAdminKeyName string = ''

@description('Name of the Key Vault secret with the key of readers, who change nothing and see no payloads; empty for none.')
param readerKeyName string = ''

@description('Delivery profile of topics that name none.')
param profile profileType = 'latest'

@description('Address under which the app is reached, when it is not its default one.')
param publicUrl string = ''

@description('Whether endpoints may have no TLS.')
param allowHttp bool = false

@description('Networks (CIDR, comma-separated) that may be reached though they are not public.')
param allowedNetworks string = ''

@description('Name of the Key Vault secret with certificate authorities (PEM) to trust besides the system\'s; empty for none.')
param caBundleName string = ''

@description('Name of the Key Vault secret with a certificate and its key (PEM) to present to endpoints; empty for none.')
param clientCertificateName string = ''

@description('Proxy through which endpoints are reached; empty for none.')
param egressProxy string = ''

@description('Which delivery attempts are kept in tables.')
param attemptLog attemptLogType = 'failures'

@description('What the log has a line for: commits or publish requests.')
param publishLog publishLogType = 'commits'

@description('When dead letters are written: NCRONTAB, seconds first. Each minute by default; docs/cost.md says what a run costs.')
param deadletterSchedule string = '0 * * * * *'

@description('Whether Retry-After of 429 and 503 is followed.')
param honorRetryAfter bool = false

@description('Whether a time slot in which an event is held counts as an attempt.')
param probationCountsAttempt bool = false

@description('Whether probation after a client error dead-letters held events.')
param probationEndsEvents bool = false

@description('Whether deliveries carry the trace context of their events.')
param traceContext bool = true

@description('Whether what endpoints answer to failed attempts is kept.')
param endpointAnswers bool = true

@description('Whether deliveries of a replay have the header aeg-replay-of.')
param replayHeader bool = false

@description('Header in which the front end tells the address of a publisher; empty where topics have no rules about addresses.')
param clientIpHeader string = ''

@description('Tenant whose access tokens are accepted; empty for none.')
param entraTenant string = ''

@description('Audiences of the tokens of publishers, comma-separated; empty for those of Event Grid.')
param entraAudience string = ''

@description('Audiences of the tokens of operators, comma-separated; empty for those of Azure Resource Manager.')
param entraManagementAudience string = ''

@description('Application whose tokens protected webhooks get; empty for none.')
param webhookClientId string = ''

@description('Name of the Key Vault secret with the secret of that application.')
param webhookSecretName string = ''

@description('Name of the Key Vault secret with the certificate of that application, instead of a secret.')
param webhookCertificateName string = ''

@description('Resource ids of other storage accounts to which dead letters, and events for storage queues, may go, comma-separated; empty for none.')
param deadletterAccountIds string = ''

// ---- size: docs/deploy.md has the reasons

@description('Memory of one instance, in MB. 2048 comes with a whole core; 512 is a quarter of the price with a quarter of a core.')
param instanceMemoryMB instanceMemoryType = 2048

@description('Most on-demand instances of one function group. Publishing, delivering and retrying are a group each: three times this, and two timers, must fit into the quota of the region (250 cores).')
@minValue(1)
@maxValue(1000)
param maximumInstanceCount int = 40

@description('HTTP requests that one instance takes at the same time, each on a thread of its own.')
@minValue(1)
@maxValue(64)
param httpConcurrency int = 16

@description('HTTP instances that are kept warm: 0 costs nothing when idle, 1 takes the cold start out of publishing.')
@minValue(0)
@maxValue(1000)
param httpAlwaysReady int = 0

// ---- data, network, operation

@description('Redundancy of the storage account.')
param storageSku storageSkuType = 'Standard_ZRS'

@description('Days after which a payload that the app has not deleted itself is deleted. The app keeps payloads for 14 days at most.')
@minValue(16)
@maxValue(365)
param payloadRetentionDays int = 21

@description('Whether the storage account and the vault are reached through private endpoints only.')
param vnetEnabled bool = false

@description('Days that logs are kept.')
@minValue(30)
@maxValue(730)
param logRetentionDays int = 30

@description('Most gigabytes of logs in a day; -1 is no limit.')
@minValue(-1)
param logDailyCapGb int = -1

@description('Mail address that gets the alerts; empty for none.')
param alertEmail string = ''

@description('Monthly budget in the currency of the subscription; 0 for none. Needs a start date.')
@minValue(0)
param budgetAmount int = 0

@description('First day of the first month of the budget, in this or the next twelve months.')
param budgetStartDate string = ''

var abbreviations = loadJsonContent('abbreviations.json')
var token = uniqueString(subscription().id, environmentName, location)
var suffix = 'pushgrid-${token}'
var deadletterIds = filter(map(split(deadletterAccountIds, ','), text => trim(text)), id => !empty(id))
var deadletterAccounts = map(
  deadletterIds,
  id => '${last(split(id, '/'))}=https://${last(split(id, '/'))}.blob.${environment().suffixes.storage}'
)
var tags = {
  'azd-env-name': environmentName
}

// Every name that more than one module needs is made here: what comes from here is known before anything is deployed.
var names = {
  identity: '${abbreviations.identity}${suffix}'
  packageIdentity: '${abbreviations.identity}package-${suffix}'
  workspace: '${abbreviations.logWorkspace}${suffix}'
  insights: '${abbreviations.appInsights}${suffix}'
  storageAccount: '${abbreviations.storageAccount}pushgrid${token}'
  packageContainer: 'app-package'
  vault: '${abbreviations.keyVault}${token}'
  adminKeySecret: 'pushgrid-admin-key'
  network: '${abbreviations.virtualNetwork}${suffix}'
  appSubnet: 'app'
  plan: '${abbreviations.flexPlan}${suffix}'
  app: '${abbreviations.functionApp}${suffix}'
  actionGroup: '${abbreviations.actionGroup}${suffix}'
}

resource group 'Microsoft.Resources/resourceGroups@2025-04-01' = {
  name: '${abbreviations.resourceGroup}${environmentName}'
  location: location
  tags: tags
}

module identity 'modules/identity.bicep' = {
  scope: group
  params: {
    name: names.identity
    location: location
    tags: tags
  }
}

module packageIdentity 'modules/identity.bicep' = {
  scope: group
  params: {
    name: names.packageIdentity
    location: location
    tags: tags
  }
}

module monitoring 'modules/monitoring.bicep' = {
  scope: group
  params: {
    names: names
    location: location
    tags: tags
    retentionDays: logRetentionDays
    dailyCapGb: logDailyCapGb
  }
}

module storage 'modules/storage.bicep' = {
  scope: group
  params: {
    names: names
    location: location
    tags: tags
    sku: storageSku
    publicAccess: !vnetEnabled
    payloadRetentionDays: payloadRetentionDays
  }
  dependsOn: [
    monitoring
  ]
}

module keyVault 'modules/keyvault.bicep' = {
  scope: group
  params: {
    names: names
    location: location
    tags: tags
    publicAccess: !vnetEnabled
    adminKey: adminKey
  }
}

module network 'modules/network.bicep' = if (vnetEnabled) {
  scope: group
  params: {
    names: names
    location: location
    tags: tags
  }
  dependsOn: [
    storage
    keyVault
  ]
}

module rbac 'modules/rbac.bicep' = {
  scope: group
  params: {
    names: names
    appPrincipalId: identity.outputs.principalId
    packagePrincipalId: packageIdentity.outputs.principalId
    deployerPrincipalId: principalId
    deployerKind: principalType
  }
  dependsOn: [
    storage
    monitoring
    keyVault
  ]
}

module deadletters 'modules/deadletters.bicep' = [
  for id in deadletterIds: {
    scope: resourceGroup(split(id, '/')[2], split(id, '/')[4])
    params: {
      appPrincipalId: identity.outputs.principalId
      storageAccountName: last(split(id, '/'))
    }
  }
]

module app 'modules/app.bicep' = {
  scope: group
  params: {
    names: names
    serviceName: 'api'
    location: location
    tags: tags
    vnetEnabled: vnetEnabled
    scale: {
      instanceMemoryMB: instanceMemoryMB
      maximumInstanceCount: maximumInstanceCount
      httpConcurrency: httpConcurrency
      httpAlwaysReady: httpAlwaysReady
    }
    settings: {
      secondAdminKeyName: secondAdminKeyName
      readerKeyName: readerKeyName
      profile: profile
      publicUrl: publicUrl
      allowHttp: allowHttp
      allowedNetworks: allowedNetworks
      caBundleName: caBundleName
      clientCertificateName: clientCertificateName
      egressProxy: egressProxy
      attemptLog: attemptLog
      publishLog: publishLog
      deadletterSchedule: deadletterSchedule
      honorRetryAfter: honorRetryAfter
      probationCountsAttempt: probationCountsAttempt
      probationEndsEvents: probationEndsEvents
      traceContext: traceContext
      endpointAnswers: endpointAnswers
      replayHeader: replayHeader
      clientIpHeader: clientIpHeader
      entraTenant: entraTenant
      entraAudience: entraAudience
      entraManagementAudience: entraManagementAudience
      webhookClientId: webhookClientId
      webhookSecretName: webhookSecretName
      webhookCertificateName: webhookCertificateName
      deadletterAccounts: join(deadletterAccounts, ',')
    }
  }
  // Without the roles the app can't read its own package.
  dependsOn: [
    rbac
    deadletters
    network
  ]
}

module alerts 'modules/alerts.bicep' = {
  scope: group
  params: {
    names: names
    location: location
    tags: tags
    email: alertEmail
    limits: {
      oldestMessageMinutes: 15
      publishFailures: 5
      queuedMessages: 100000
    }
    budget: {
      amount: budgetAmount
      startDate: budgetStartDate
    }
  }
  dependsOn: [
    app
  ]
}

@description('Region.')
output AZURE_LOCATION string = location

@description('Tenant.')
output AZURE_TENANT_ID string = tenant().tenantId

@description('Resource group.')
output AZURE_RESOURCE_GROUP string = group.name

@description('Function app.')
output AZURE_FUNCTION_NAME string = names.app

@description('Storage account.')
output AZURE_STORAGE_ACCOUNT string = names.storageAccount

@description('Vault with the management key.')
output AZURE_KEY_VAULT_NAME string = names.vault

@description('Address of the app; topics are published to at /topics/<topic>/api/events.')
output PUSHGRID_URL string = app.outputs.url
