metadata description = 'Key Vault with the key of the management API. Access by role only.'

import { tagsType } from 'types.bicep'

@description('Name of the vault: 3 to 24 letters, digits and hyphens.')
@minLength(3)
@maxLength(24)
param name string

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
  name: name
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
  name: 'pushgrid-admin-key'
  properties: {
    value: adminKey
    contentType: 'text/plain'
  }
}

@description('Name of the vault.')
output name string = vault.name

@description('Resource id of the vault.')
output id string = vault.id

@description('Address of the management key, without a version, so that a new version is picked up.')
output adminKeySecretUri string = adminKeySecret.properties.secretUri

@description('Address of the vault, ending in a slash.')
output uri string = vault.properties.vaultUri
