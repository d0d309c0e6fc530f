metadata description = 'Role of the app on the blobs of another storage account, for dead letters.'

@description('Object id of the identity of the app.')
param appPrincipalId string

@description('Name of the storage account, in the resource group to which this module is deployed.')
param storageAccountName string

// Storage Blob Data Contributor: the containers are those that event subscriptions name.
var roleId = 'ba92f5b4-2d11-453d-a403-e96b0029c9fe'

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
