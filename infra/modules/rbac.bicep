metadata description = 'Every role assignment of the deployment, made from one table.'

import { namesType, principalKindType } from 'types.bicep'

@description('What a role is granted on.')
type roleTargetType = 'blob' | 'package' | 'queue' | 'table' | 'monitoring' | 'vault'

@description('Who a role is granted to: the app, the platform that handles its package, or whoever deploys.')
type roleHolderType = 'app' | 'platform' | 'deployer'

@description('One row of the role table.')
type roleType = {
  @description('Name of the built-in role, for the reader.')
  role: string

  @description('Id of the role definition.')
  @minLength(36)
  @maxLength(36)
  id: string

  @description('What the role is granted on.')
  target: roleTargetType

  @description('Who gets the role.')
  holder: roleHolderType
}

@description('Names of the resources.')
param names namesType

@description('Object id of the identity of the app.')
param appPrincipalId string

@description('Object id of the identity under which the platform writes and reads the package.')
param packagePrincipalId string

@description('Object id of whoever deploys; empty to grant nothing to them.')
param deployerPrincipalId string

@description('Kind of the deploying principal.')
param deployerKind principalKindType

// The app. Its host needs the blob role (locks, keys) and the table role (diagnostic events). The app puts messages
// back and makes a table a day, and both make what is missing: the narrower roles for queues and tables allow neither.
// Containers, too, are not listed one by one: dead letters go to those that event subscriptions name. The one that it
// must not write holds its own code; a condition excludes it, and the package has an identity of its own.
// Who deploys makes containers for dead letters and reads them, reads queues and tables (python -m cli timeline), and
// fetches the management key.
@description('The role table.')
param roles roleType[] = [
  {
    role: 'Storage Blob Data Owner'
    id: 'b7e6dc6d-f1e8-4753-8033-0f276bb0955b'
    target: 'blob'
    holder: 'app'
  }
  {
    role: 'Storage Queue Data Contributor'
    id: '974c5e8b-45b9-4653-ba55-5f855dd0fb88'
    target: 'queue'
    holder: 'app'
  }
  {
    role: 'Storage Table Data Contributor'
    id: '0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3'
    target: 'table'
    holder: 'app'
  }
  {
    role: 'Monitoring Metrics Publisher'
    id: '3913510d-42f4-4e42-8a64-420c390055eb'
    target: 'monitoring'
    holder: 'app'
  }
  {
    role: 'Key Vault Secrets User'
    id: '4633458b-17de-408a-b874-0445c86b69e6'
    target: 'vault'
    holder: 'app'
  }
  {
    role: 'Storage Blob Data Contributor'
    id: 'ba92f5b4-2d11-453d-a403-e96b0029c9fe'
    target: 'blob'
    holder: 'deployer'
  }
  {
    role: 'Storage Queue Data Reader'
    id: '19e7f393-937e-4f77-808e-94535e297925'
    target: 'queue'
    holder: 'deployer'
  }
  {
    role: 'Storage Table Data Reader'
    id: '76199698-9eea-4c19-bc75-cec21354c6b6'
    target: 'table'
    holder: 'deployer'
  }
  {
    role: 'Key Vault Secrets User'
    id: '4633458b-17de-408a-b874-0445c86b69e6'
    target: 'vault'
    holder: 'deployer'
  }
  {
    role: 'Storage Blob Data Contributor'
    id: 'ba92f5b4-2d11-453d-a403-e96b0029c9fe'
    target: 'package'
    holder: 'platform'
  }
]

// Anything but reading needs another container: the conditions of Azure's role assignments.
var blobs = 'Microsoft.Storage/storageAccounts/blobServices/containers'
var packageIsReadOnly = '((ActionMatches{\'${blobs}/blobs/read\'}) OR (@Resource[${blobs}:name] StringNotEquals \'${names.packageContainer}\'))'

var appGrants = map(filter(roles, row => row.holder == 'app'), row => {
  holder: row.holder
  target: row.target
  roleId: row.id
  principalId: appPrincipalId
  principalType: 'ServicePrincipal'
})

var platformGrants = map(filter(roles, row => row.holder == 'platform'), row => {
  holder: row.holder
  target: row.target
  roleId: row.id
  principalId: packagePrincipalId
  principalType: 'ServicePrincipal'
})

var deployerGrants = map(filter(roles, row => row.holder == 'deployer' && !empty(deployerPrincipalId)), row => {
  holder: row.holder
  target: row.target
  roleId: row.id
  principalId: deployerPrincipalId
  principalType: deployerKind
})

var grants = concat(appGrants, platformGrants, deployerGrants)

resource account 'Microsoft.Storage/storageAccounts@2025-01-01' existing = {
  name: names.storageAccount
}

resource blobService 'Microsoft.Storage/storageAccounts/blobServices@2025-01-01' existing = {
  parent: account
  name: 'default'
}

resource packageContainer 'Microsoft.Storage/storageAccounts/blobServices/containers@2025-01-01' existing = {
  parent: blobService
  name: names.packageContainer
}

resource queueService 'Microsoft.Storage/storageAccounts/queueServices@2025-01-01' existing = {
  parent: account
  name: 'default'
}

resource tableService 'Microsoft.Storage/storageAccounts/tableServices@2025-01-01' existing = {
  parent: account
  name: 'default'
}

resource insights 'Microsoft.Insights/components@2020-02-02' existing = {
  name: names.insights
}

resource vault 'Microsoft.KeyVault/vaults@2024-11-01' existing = {
  name: names.vault
}

resource blobRoles 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for grant in filter(grants, g => g.target == 'blob'): {
    scope: blobService
    name: guid(blobService.id, grant.principalId, grant.roleId)
    properties: {
      principalId: grant.principalId
      principalType: grant.principalType
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', grant.roleId)
      condition: grant.holder == 'app' ? packageIsReadOnly : null
      conditionVersion: grant.holder == 'app' ? '2.0' : null
    }
  }
]

resource packageRoles 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for grant in filter(grants, g => g.target == 'package'): {
    scope: packageContainer
    name: guid(packageContainer.id, grant.principalId, grant.roleId)
    properties: {
      principalId: grant.principalId
      principalType: grant.principalType
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
      principalType: grant.principalType
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', grant.roleId)
    }
  }
]

resource tableRoles 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for grant in filter(grants, g => g.target == 'table'): {
    scope: tableService
    name: guid(tableService.id, grant.principalId, grant.roleId)
    properties: {
      principalId: grant.principalId
      principalType: grant.principalType
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', grant.roleId)
    }
  }
]

resource monitoringRoles 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for grant in filter(grants, g => g.target == 'monitoring'): {
    scope: insights
    name: guid(insights.id, grant.principalId, grant.roleId)
    properties: {
      principalId: grant.principalId
      principalType: grant.principalType
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', grant.roleId)
    }
  }
]

resource vaultRoles 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for grant in filter(grants, g => g.target == 'vault'): {
    scope: vault
    name: guid(vault.id, grant.principalId, grant.roleId)
    properties: {
      principalId: grant.principalId
      principalType: grant.principalType
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', grant.roleId)
    }
  }
]
