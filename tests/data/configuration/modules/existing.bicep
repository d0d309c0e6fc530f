resource topic 'Microsoft.EventGrid/topics@2025-02-15' existing = { name: 'existing-topic' }
resource account 'Microsoft.Storage/storageAccounts@2025-01-01' existing = { name: 'existingaccount' }
resource far 'Microsoft.Storage/storageAccounts@2025-01-01' existing = {
  name: 'faraccount'
  scope: resourceGroup('11111111-1111-1111-1111-111111111111', 'far')
}
resource blobs 'Microsoft.Storage/storageAccounts/blobServices@2025-01-01' existing = {
  parent: account
  name: 'default'
}

resource crm 'Microsoft.EventGrid/topics/eventSubscriptions@2025-02-15' = {
  parent: topic
  name: 'crm'
  properties: {
    labels: [topic.name, topic.type, topic.apiVersion, blobs.name]
    destination: {
      endpointType: 'StorageQueue'
      properties: { resourceId: account.id, queueName: 'orders' }
    }
    deadLetterDestination: {
      endpointType: 'StorageBlob'
      properties: { resourceId: far.id, blobContainerName: blobs.id }
    }
  }
}

resource audit 'Microsoft.EventGrid/eventSubscriptions@2025-02-15' = {
  scope: topic
  name: 'audit'
  properties: { labels: ['extension'] }
}

resource ofAccount 'Microsoft.EventGrid/eventSubscriptions@2025-02-15' = {
  scope: account
  name: 'created'
  properties: { labels: ['storage'] }
}

resource system 'Microsoft.EventGrid/systemTopics@2025-02-15' = {
  name: 'existing-system'
  location: resourceGroup().location
  properties: { source: account.id, topicType: 'Microsoft.Storage.StorageAccounts' }

  resource undelivered 'eventSubscriptions' = {
    name: 'undelivered'
    properties: { filter: { includedEventTypes: ['Microsoft.Storage.BlobCreated'] } }
  }
}

resource namespace 'Microsoft.EventGrid/namespaces@2025-02-15' = {
  name: 'existing-namespace'
  location: resourceGroup().location
  sku: { name: 'Standard', capacity: 1 }

  resource payments 'topics' = {
    name: 'payments'
    properties: { eventRetentionInDays: 2 }

    resource ledger 'eventSubscriptions' = {
      name: 'ledger'
      properties: { deliveryConfiguration: { deliveryMode: 'Queue' } }
    }
  }
}
