metadata description = 'Roles of the app on another storage account: dead letters in its blobs, events into its queues.'

@description('Object id of the identity of the app.')
param appPrincipalId string

@description('Name of the storage account, in the resource group to which this module is deployed.')
param storageAccountName string

// Storage Blob Data Contributor: the containers are those that event subscriptions name.
var roleId = 'ba92f5b4-2d11-453d-a403-e96b0029c9fe'

// Storage Queue Data Message Sender: it puts messages, and neither makes nor reads queues.
var queueRoleId = 'c6a89b2d-59bc-44d0-9896-0f6e12d7b80a'

resource account 'Microsoft.Storage/storageAccounts@2025-01-01' existing = {
  name: storageAccountName
}

resource blobService 'Microsoft.Storage/storageAccounts/blobServices@2025-01-01' existing = {
  parent: account
  name: 'default'
}

resource blobRole 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: blobService
  name: guid(blobService.id, appPrincipalId, roleId)
  properties: {
    principalId: appPrincipalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roleId)
  }
}

resource queueService 'Microsoft.Storage/storageAccounts/queueServices@2025-01-01' existing = {
  parent: account
  name: 'default'
}

resource queueRole 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: queueService
  name: guid(queueService.id, appPrincipalId, queueRoleId)
  properties: {
    principalId: appPrincipalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', queueRoleId)
  }
}
