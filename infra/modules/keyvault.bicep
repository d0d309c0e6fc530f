metadata description = 'Key Vault with the key of the management API. Access by role only.'

import { namesType, tagsType } from 'types.bicep'

@description('Names of the resources.')
param names namesType

@description('Region.')
param location string

@description('Tags of every resource.')
param tags tagsType

@description('Whether the vault answers on its public address. False needs a private endpoint.')
param publicAccess bool

@description('Key of the management API.')
@secure()
@minLength(32)
param adminKey string

resource vault 'Microsoft.KeyVault/vaults@2024-11-01' = {
  name: names.vault
  location: location
  tags: tags
  properties: {
    tenantId: tenant().tenantId
    sku: {
      family: 'A'
      name: 'standard'
    }
    enableRbacAuthorization: true
    enableSoftDelete: true
    softDeleteRetentionInDays: 7
    enablePurgeProtection: true
    publicNetworkAccess: publicAccess ? 'Enabled' : 'Disabled'
    networkAcls: {
      // Deployments write the secret through Azure Resource Manager.
      bypass: 'AzureServices'
      defaultAction: publicAccess ? 'Allow' : 'Deny'
    }
  }
}

resource adminKeySecret 'Microsoft.KeyVault/vaults/secrets@2024-11-01' = {
  parent: vault
  name: names.adminKeySecret
  properties: {
    value: adminKey
    contentType: 'text/plain'
  }
}
