param name string
param tags object = {}
param number int?
param identity ('SystemAssigned' | 'None')?
param rules array?
param inner object = { given: false }

resource topic 'Microsoft.EventGrid/topics@2025-02-15' = {
  name: name
  location: resourceGroup().location
  tags: any(union(tags, number == null ? {} : { number: number }))
  identity: identity == null ? null : { type: identity! }
  properties: {
    publicNetworkAccess: empty(rules ?? []) ? 'Disabled' : 'Enabled'
    inboundIpRules: rules
    disableLocalAuth: any(inner).given
  }
}

output name string = topic.name
output number int = number ?? 0
output all object = { id: topic.id, tags: tags, labels: [name] }
