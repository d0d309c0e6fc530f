param receivers array = [
  { name: 'crm', prefixes: ['/a', '/b'], on: true }
  { name: 'erp', prefixes: [], on: true }
  { name: 'old', prefixes: ['/c'], on: false }
]
param byRegion object = { west: { size: 1 }, east: { size: 2 } }

var squares = [for i in range(0, 4): i * i]
var indexed = [for (each, i) in receivers: { position: i, name: each.name, first: first(each.prefixes) }]
var nested = [for i in range(0, 2): { index: i, values: map(range(0, 2), j => i * 10 + j) }]
var upper = [for each in receivers: toUpper(each.name)]

resource topics 'Microsoft.EventGrid/topics@2025-02-15' = [for (each, i) in receivers: {
  name: 'loops-${each.name}'
  location: resourceGroup().location
  tags: any({ index: i, upper: upper[i], last: i == length(receivers) - 1 })
  properties: {
    inboundIpRules: [for (prefix, j) in each.prefixes: { action: 'Allow', ipMask: '10.${i}.${j}.0/24' }]
  }
}]

resource some 'Microsoft.EventGrid/topics@2025-02-15' = [for each in receivers: if (each.on) {
  name: 'loops-if-${each.name}'
  location: resourceGroup().location
}]

@batchSize(2)
resource regions 'Microsoft.EventGrid/topics@2025-02-15' = [for each in items(byRegion): {
  name: 'loops-${each.key}'
  location: each.key
  tags: { size: string(each.value.size) }
}]

resource none 'Microsoft.EventGrid/topics@2025-02-15' = [for i in range(0, 0): {
  name: 'loops-none-${i}'
  location: resourceGroup().location
}]

resource subscriptions 'Microsoft.EventGrid/topics/eventSubscriptions@2025-02-15' = [for (each, i) in receivers: {
  parent: topics[i]
  name: each.name
  properties: {
    labels: [for j in range(0, i): '${each.name}-${j}']
    destination: {
      endpointType: 'WebHook'
      properties: { endpointUrl: 'https://${each.name}.example/' }
    }
    filter: {
      advancedFilters: [for prefix in each.prefixes: {
        operatorType: 'StringBeginsWith'
        key: 'subject'
        values: [prefix]
      }]
    }
  }
}]

resource variables 'Microsoft.EventGrid/topics@2025-02-15' = {
  name: 'loops-variables'
  location: resourceGroup().location
  tags: any({
    squares: squares
    indexed: indexed
    upper: join(upper, ',')
    ids: [topics[0].id, topics[1].name]
    nested: nested
  })
}

module each 'topic.bicep' = [for (each, i) in receivers: {
  name: 'each-${each.name}'
  params: {
    name: 'loops-module-${each.name}'
    tags: i == 0 ? { first: 'yes' } : { first: 'no', index: string(i) }
    number: i
  }
}]

module chosen 'topic.bicep' = [for (each, i) in receivers: if (!each.on) {
  name: 'chosen-${i}'
  params: { name: 'loops-chosen-${each.name}' }
}]
