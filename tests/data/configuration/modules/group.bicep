resource topic 'Microsoft.EventGrid/topics@2025-02-15' = {
  name: 'group-${uniqueString(resourceGroup().id)}'
  location: resourceGroup().location
}

output name string = topic.name
