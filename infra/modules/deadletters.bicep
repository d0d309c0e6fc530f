metadata description = 'Roles of the app on another storage account: dead letters in its blobs, events into its queues.'

@description('Object id of the identity of the app.')
param appPrincipalId string

@description('Name of the storage account, in the resource group to which this module is deployed.')
param storageAccountName string

var grants = [
  {
    // Storage Blob Data Contributor: the containers are those that event subscriptions name.
    target: 'blob'
    roleId: 'ba92f5b4-2d11-453d-a403-e96b0029c9fe'
    principalId: appPrincipalId
  }
  {
    // Storage Queue Data Message Sender: it puts messages, and neither makes nor reads queues.
    target: 'queue'
    roleId: 'c6a89b2d-59bc-44d0-9896-0f6e12d7b80a'
    principalId: appPrincipalId
  }
]

resource account 'Microsoft.Storage/storageAccounts@2025-01-01' existing = {
  name: storageAccountName
}

resource blobService 'Microsoft.Storage/storageAccounts/blobServices@2025-01-01' existing = {
  parent: account
  name: 'default'
}

resource queueService 'Microsoft.Storage/storageAccounts/queueServices@2025-01-01' existing = {
  parent: account
  name: 'default'
}

resource blobRoles 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for grant in filter(grants, g => g.target == 'blob'): {
    scope: blobService
    name: guid(blobService.id, grant.principalId, grant.roleId)
    properties: {
      principalId: grant.principalId
      principalType: 'ServicePrincipal'
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', grant.roleId)
    }
  }
]

resource queueRoles 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for grant in filter(grants, g => g.target == 'queue'): {
    scope: queueService
    name: guid(queueService.id, grant.principalId, grant.roleId)
    properties: {
      principalId: grant.principalId
      principalType: 'ServicePrincipal'
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', grant.roleId)
    }
  }
]
