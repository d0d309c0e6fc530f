param name string
param tags object
param retentionDays int = 2

resource namespace 'Microsoft.EventGrid/namespaces@2025-02-15' = {
  name: name
  location: resourceGroup().location
  tags: tags
  sku: { name: 'Standard', capacity: 1 }
  properties: { publicNetworkAccess: 'Enabled' }

  resource payments 'topics' = {
    name: 'payments'
    properties: { inputSchema: 'CloudEventSchemaV1_0', eventRetentionInDays: retentionDays }

    resource ledger 'eventSubscriptions' = {
      name: 'ledger'
      properties: {
        deliveryConfiguration: {
          deliveryMode: 'Push'
          push: {
            maxDeliveryCount: 5
            destination: {
              endpointType: 'WebHook'
              properties: { endpointUrl: 'https://127.0.0.1:9000/ledger' }
            }
          }
        }
        eventDeliverySchema: 'CloudEventSchemaV1_0'
      }
    }
  }
}

output auditUrl string = 'https://127.0.0.1:9000/${name}'
