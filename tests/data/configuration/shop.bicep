type receiverType = {
  name: string
  url: string
  prefixes: string[]?
}

type receiversType = receiverType[]

@description('Name of the environment.')
@allowed(['test', 'production'])
param environment string = 'test'
param location string = resourceGroup().location
param receivers receiversType
param deadLetters bool = false
param storageAccountName string = 'shop${uniqueString(resourceGroup().id)}'

var maxima = [for each in range(1, 3): each * 10]
var eventTypes = ['Shop.OrderPlaced', 'Shop.OrderCancelled']
var isProduction = environment == 'production'
var tags = { product: 'shop', environment: environment }

func topicName(product string, environment string) string => toLower('${product}-${environment}')

resource storage 'Microsoft.Storage/storageAccounts@2025-01-01' = {
  name: storageAccountName
  location: location
  kind: 'StorageV2'
  sku: { name: 'Standard_LRS' }
  properties: any({ owner: identity.properties.principalId })
}

resource identity 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' existing = { name: 'shop' }

resource orders 'Microsoft.EventGrid/topics@2025-02-15' = {
  name: topicName('Orders', environment)
  location: location
  tags: union(tags, { deliveryProfile: 'latest' })
  identity: { type: 'SystemAssigned' }
  properties: {
    inputSchema: 'EventGridSchema'
    publicNetworkAccess: 'Enabled'
    disableLocalAuth: isProduction
  }
}

@batchSize(1)
resource subscriptions 'Microsoft.EventGrid/topics/eventSubscriptions@2025-02-15' = [for (receiver, i) in receivers: {
  parent: orders
  name: receiver.name
  properties: {
    destination: {
      endpointType: 'WebHook'
      properties: { endpointUrl: receiver.url, maxEventsPerBatch: maxima[i] }
    }
    filter: {
      advancedFilters: [for prefix in (receiver.?prefixes ?? []): {
        operatorType: 'StringBeginsWith'
        key: 'subject'
        values: [prefix]
      }]
      includedEventTypes: eventTypes
    }
    labels: map(eventTypes, type => last(split(type, '.'))!)
    deadLetterDestination: deadLetters
      ? { endpointType: 'StorageBlob', properties: { resourceId: storage.id, blobContainerName: 'dead-letters' } }
      : null
  }
}]

resource archive 'Microsoft.EventGrid/topics@2025-02-15' = if (isProduction) {
  name: 'archive'
  location: location
}

resource audit 'Microsoft.EventGrid/eventSubscriptions@2025-02-15' = {
  scope: orders
  name: 'audit'
  properties: {
    destination: {
      endpointType: 'WebHook'
      properties: { endpointUrl: namespace.outputs.auditUrl }
    }
  }
}

resource vault 'Microsoft.KeyVault/vaults@2024-11-01' existing = { name: 'shop' }

resource secrets 'Microsoft.EventGrid/eventSubscriptions@2025-02-15' = {
  scope: vault
  name: 'secrets'
  properties: {}
}

module namespace 'modules/namespace.bicep' = {
  name: 'namespace-${uniqueString(deployment().name)}'
  params: { name: 'shop-${environment}', tags: tags }
}

output endpoint string = orders.properties.endpoint
