metadata description = 'The storage account with everything the app and its host expect to find in it: queues, tables, containers.'

import { namesType, storageSkuType, tagsType } from 'types.bicep'

@description('Names of the resources.')
param names namesType

@description('Region.')
param location string

@description('Tags of every resource.')
param tags tagsType

@description('Redundancy.')
param sku storageSkuType

@description('Whether the account answers on its public address. False needs private endpoints.')
param publicAccess bool

@description('Days after which a payload is deleted, counted from its last change. The app deletes payloads itself, the last ones after 14 days: this is a backstop for what it left, and must lie beyond.')
@minValue(16)
@maxValue(365)
param payloadRetentionDays int

// All names are the code's (shared/engine/ports, shared/adapters). A queue with a queue trigger has a poison queue, to
// which the host moves a message that keeps failing; `waiting` and `deadletters` are emptied by timers.
var queueNames = [
  'deliveries'
  'deliveries-poison'
  'retries'
  'retries-poison'
  'waiting'
  'deadletters'
]

// Attempts and metrics have a table for each day (attempts20270101), which the app makes and drops itself: the role on
// the table service allows it.
var tableNames = [
  'topics'
  'eventsubscriptions'
  'endpointhealth'
  'replays'
  'metrictotals'
]

var payloadContainer = 'payloads'
// Dead letters go to any container of this account that an event subscription names; `deadletters` is there to begin with.
var containerNames = [
  payloadContainer
  'poison'
  'deadletters'
  names.packageContainer
]

resource account 'Microsoft.Storage/storageAccounts@2025-01-01' = {
  name: names.storageAccount
  location: location
  tags: tags
  kind: 'StorageV2'
  sku: {
    name: sku
  }
  properties: {
    accessTier: 'Hot'
    minimumTlsVersion: 'TLS1_2'
    supportsHttpsTrafficOnly: true
    allowSharedKeyAccess: false
    defaultToOAuthAuthentication: true
    allowBlobPublicAccess: false
    allowCrossTenantReplication: false
    publicNetworkAccess: publicAccess ? 'Enabled' : 'Disabled'
    networkAcls: {
      bypass: 'None'
      defaultAction: publicAccess ? 'Allow' : 'Deny'
    }
  }
}

resource blobService 'Microsoft.Storage/storageAccounts/blobServices@2025-01-01' = {
  parent: account
  name: 'default'
  properties: {
    // Soft delete of blobs covers the whole account and would bill every delivered payload again for its duration.
    deleteRetentionPolicy: {
      enabled: false
    }
    containerDeleteRetentionPolicy: {
      enabled: true
      days: 7
    }
  }
}

resource containers 'Microsoft.Storage/storageAccounts/blobServices/containers@2025-01-01' = [
  for containerName in containerNames: {
    parent: blobService
    name: containerName
    properties: {
      publicAccess: 'None'
    }
  }
]

resource queueService 'Microsoft.Storage/storageAccounts/queueServices@2025-01-01' = {
  parent: account
  name: 'default'
}

resource queues 'Microsoft.Storage/storageAccounts/queueServices/queues@2025-01-01' = [
  for queueName in queueNames: {
    parent: queueService
    name: queueName
  }
]

resource tableService 'Microsoft.Storage/storageAccounts/tableServices@2025-01-01' = {
  parent: account
  name: 'default'
}

resource tables 'Microsoft.Storage/storageAccounts/tableServices/tables@2025-01-01' = [
  for tableName in tableNames: {
    parent: tableService
    name: tableName
  }
]

resource lifecycle 'Microsoft.Storage/storageAccounts/managementPolicies@2025-01-01' = {
  parent: account
  name: 'default'
  properties: {
    policy: {
      rules: [
        {
          name: 'delete-payloads'
          type: 'Lifecycle'
          enabled: true
          definition: {
            filters: {
              blobTypes: ['blockBlob']
              prefixMatch: ['${payloadContainer}/']
            }
            actions: {
              baseBlob: {
                delete: {
                  daysAfterModificationGreaterThan: payloadRetentionDays
                }
              }
            }
          }
        }
      ]
    }
  }
}

resource workspace 'Microsoft.OperationalInsights/workspaces@2025-02-01' existing = {
  name: names.workspace
}

// Metrics only: the read and write logs of a queue that is polled cost more than the queue itself.
resource blobMetrics 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  scope: blobService
  name: 'transactions'
  properties: {
    workspaceId: workspace.id
    metrics: [
      {
        category: 'Transaction'
        enabled: true
      }
    ]
  }
}

resource queueMetrics 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  scope: queueService
  name: 'transactions'
  properties: {
    workspaceId: workspace.id
    metrics: [
      {
        category: 'Transaction'
        enabled: true
      }
    ]
  }
}

resource tableMetrics 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  scope: tableService
  name: 'transactions'
  properties: {
    workspaceId: workspace.id
    metrics: [
      {
        category: 'Transaction'
        enabled: true
      }
    ]
  }
}
