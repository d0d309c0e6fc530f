metadata description = 'Flex Consumption plan, function app and its settings.'

import { namesType, scaleType, settingsType, tagsType } from 'types.bicep'

@description('Names of the resources.')
param names namesType

@description('Name of the service in azure.yaml; azd finds the app by this tag.')
param serviceName string

@description('Region.')
param location string

@description('Tags of every resource.')
param tags tagsType

@description('How far, and in what size, the app scales.')
param scale scaleType

@description('Settings of the app.')
param settings settingsType

@description('Whether the app is in the virtual network.')
param vnetEnabled bool

// Addresses of Key Vault secrets, without a version, so that a new version is picked up.
var secrets = 'https://${names.vault}${environment().suffixes.keyvaultDns}/secrets'

resource identity 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' existing = {
  name: names.identity
}

resource packageIdentity 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' existing = {
  name: names.packageIdentity
}

resource account 'Microsoft.Storage/storageAccounts@2025-01-01' existing = {
  name: names.storageAccount
}

resource network 'Microsoft.Network/virtualNetworks@2024-07-01' existing = {
  name: names.network
}

resource appSubnet 'Microsoft.Network/virtualNetworks/subnets@2024-07-01' existing = {
  parent: network
  name: names.appSubnet
}

resource insights 'Microsoft.Insights/components@2020-02-02' existing = {
  name: names.insights
}

resource plan 'Microsoft.Web/serverfarms@2024-11-01' = {
  name: names.plan
  location: location
  tags: tags
  kind: 'functionapp'
  sku: {
    name: 'FC1'
    tier: 'FlexConsumption'
  }
  properties: {
    reserved: true
  }
}

resource site 'Microsoft.Web/sites@2024-11-01' = {
  name: names.app
  location: location
  tags: union(tags, {
    'azd-service-name': serviceName
  })
  kind: 'functionapp,linux'
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: {
      '${identity.id}': {}
      '${packageIdentity.id}': {}
    }
  }
  properties: {
    serverFarmId: plan.id
    httpsOnly: true
    publicNetworkAccess: 'Enabled'
    // Without this a Key Vault reference is resolved by the system-assigned identity, which does not exist.
    keyVaultReferenceIdentity: identity.id
    virtualNetworkSubnetId: vnetEnabled ? appSubnet.id : null
    siteConfig: {
      minTlsVersion: '1.2'
      scmMinTlsVersion: '1.2'
      http20Enabled: true
    }
    functionAppConfig: {
      deployment: {
        storage: {
          type: 'blobContainer'
          value: '${account.properties.primaryEndpoints.blob}${names.packageContainer}'
          authentication: {
            type: 'UserAssignedIdentity'
            userAssignedIdentityResourceId: packageIdentity.id
          }
        }
      }
      runtime: {
        name: 'python'
        version: '3.13'
      }
      scaleAndConcurrency: {
        instanceMemoryMB: scale.instanceMemoryMB
        maximumInstanceCount: scale.maximumInstanceCount
        alwaysReady: scale.httpAlwaysReady == 0
          ? []
          : [
              {
                name: 'http'
                instanceCount: scale.httpAlwaysReady
              }
            ]
        triggers: {
          http: {
            perInstanceConcurrency: scale.httpConcurrency
          }
        }
      }
    }
  }
}

// Code is deployed with a token of Entra ID only, never with a name and a password.
resource noScmPassword 'Microsoft.Web/sites/basicPublishingCredentialsPolicies@2024-11-01' = {
  parent: site
  name: 'scm'
  properties: {
    allow: false
  }
}

resource noFtpPassword 'Microsoft.Web/sites/basicPublishingCredentialsPolicies@2024-11-01' = {
  parent: site
  name: 'ftp'
  properties: {
    allow: false
  }
}

// All settings in one literal object, so that they can be compared with those that the code reads. What is not written here
// is gone after a deployment: settings are changed in the template, by its parameters, and not in the portal.
resource appSettings 'Microsoft.Web/sites/config@2024-11-01' = {
  parent: site
  name: 'appsettings'
  properties: {
    APPLICATIONINSIGHTS_AUTHENTICATION_STRING: 'ClientId=${identity.properties.clientId};Authorization=AAD'
    APPLICATIONINSIGHTS_CONNECTION_STRING: insights.properties.ConnectionString
    AzureWebJobsStorage__blobServiceUri: account.properties.primaryEndpoints.blob
    AzureWebJobsStorage__clientId: identity.properties.clientId
    AzureWebJobsStorage__credential: 'managedidentity'
    AzureWebJobsStorage__queueServiceUri: account.properties.primaryEndpoints.queue
    AzureWebJobsStorage__tableServiceUri: account.properties.primaryEndpoints.table
    PUSHGRID_ADMIN_KEY: '@Microsoft.KeyVault(SecretUri=${secrets}/${names.adminKeySecret})'
    PUSHGRID_ADMIN_KEY_2: empty(settings.secondAdminKeyName)
      ? ''
      : '@Microsoft.KeyVault(SecretUri=${secrets}/${settings.secondAdminKeyName})'
    PUSHGRID_ALLOWED_NETWORKS: settings.allowedNetworks
    PUSHGRID_ALLOW_HTTP: settings.allowHttp ? 'true' : 'false'
    PUSHGRID_ATTEMPT_LOG: settings.attemptLog
    PUSHGRID_CA_BUNDLE: empty(settings.caBundleName)
      ? ''
      : '@Microsoft.KeyVault(SecretUri=${secrets}/${settings.caBundleName})'
    PUSHGRID_CLIENT_CERTIFICATE: empty(settings.clientCertificateName)
      ? ''
      : '@Microsoft.KeyVault(SecretUri=${secrets}/${settings.clientCertificateName})'
    PUSHGRID_CLIENT_IP_HEADER: settings.clientIpHeader
    PUSHGRID_DEADLETTER_ACCOUNTS: settings.deadletterAccounts
    PUSHGRID_DEADLETTER_SCHEDULE: settings.deadletterSchedule
    PUSHGRID_EGRESS_PROXY: settings.egressProxy
    PUSHGRID_ENTRA_AUDIENCE: settings.entraAudience
    PUSHGRID_ENTRA_MANAGEMENT_AUDIENCE: settings.entraManagementAudience
    PUSHGRID_ENTRA_TENANT: settings.entraTenant
    PUSHGRID_HONOR_RETRY_AFTER: settings.honorRetryAfter ? 'true' : 'false'
    PUSHGRID_PROBATION_COUNTS_ATTEMPT: settings.probationCountsAttempt ? 'true' : 'false'
    PUSHGRID_PROBATION_ENDS_EVENTS: settings.probationEndsEvents ? 'true' : 'false'
    PUSHGRID_PROFILE: settings.profile
    PUSHGRID_PUBLIC_URL: empty(settings.publicUrl) ? 'https://${site.properties.defaultHostName}' : settings.publicUrl
    PUSHGRID_PUBLISH_LOG: settings.publishLog
    PUSHGRID_ENDPOINT_ANSWERS: settings.endpointAnswers ? 'true' : 'false'
    PUSHGRID_READER_KEY: empty(settings.readerKeyName)
      ? ''
      : '@Microsoft.KeyVault(SecretUri=${secrets}/${settings.readerKeyName})'
    PUSHGRID_REPLAY_HEADER: settings.replayHeader ? 'true' : 'false'
    PUSHGRID_TRACE_CONTEXT: settings.traceContext ? 'true' : 'false'
    PUSHGRID_WAKE_SCHEDULE: '0 * * * * *'
    PUSHGRID_WEBHOOK_CERTIFICATE: empty(settings.webhookCertificateName)
      ? ''
      : '@Microsoft.KeyVault(SecretUri=${secrets}/${settings.webhookCertificateName})'
    PUSHGRID_WEBHOOK_CLIENT_ID: settings.webhookClientId
    PUSHGRID_WEBHOOK_CLIENT_SECRET: empty(settings.webhookSecretName)
      ? ''
      : '@Microsoft.KeyVault(SecretUri=${secrets}/${settings.webhookSecretName})'
    // Twice what the app takes, so that the app refuses what is too large: the host answers 500, and SDKs repeat that.
    FUNCTIONS_REQUEST_BODY_SIZE_LIMIT: '4194304'
    // At a stop the host receives no more messages at once, and not only when it has no request left.
    FUNCTIONS_ENABLE_DRAIN_ON_APP_STOPPING: 'true'
    // Threads for the management API's requests, as many as the instance takes; the worker of a one-core instance has five otherwise.
    PYTHON_THREADPOOL_THREAD_COUNT: string(scale.httpConcurrency)
  }
}

@description('Address of the app.')
output url string = 'https://${site.properties.defaultHostName}'
