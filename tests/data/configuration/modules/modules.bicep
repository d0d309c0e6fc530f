param stage string = 'test'
param rules object[]?

var isProduction = stage == 'production'

module ternary 'topic.bicep' = {
  name: 'ternary'
  params: {
    name: isProduction ? 'modules-production' : 'modules-${stage}'
    tags: isProduction ? { a: 'b' } : {}
    number: isProduction ? 1 : null
    identity: isProduction ? 'SystemAssigned' : 'None'
    inner: isProduction ? { given: false } : { given: true }
  }
}

module whole 'topic.bicep' = {
  name: '${deployment().name}-whole'
  params: {
    name: 'modules-whole'
    rules: rules ?? [{ action: 'Allow', ipMask: '10.0.0.0/24' }]
    tags: { ...(isProduction ? { a: 'b' } : { c: 'd' }), e: stage }
    identity: rules == null ? 'SystemAssigned' : null
  }
}

module absent 'topic.bicep' = if (isProduction) {
  name: 'absent'
  params: { name: 'modules-absent' }
}

module nested 'nested.bicep' = {
  name: 'nested'
  params: { prefix: 'modules-nested', depth: 2 }
}

module here 'group.bicep' = { name: 'group' }

module elsewhere 'group.bicep' = {
  name: 'group'
  scope: resourceGroup('other')
}

resource own 'Microsoft.EventGrid/topics@2025-02-15' = if (!isProduction) {
  name: 'modules-own'
  location: resourceGroup().location
  properties: any({
    outputs: [ternary.outputs.name, whole.outputs.number, whole.outputs.all, nested.outputs.names, nested.outputs.first]
    groups: [here.outputs.name, elsewhere.outputs.name]
  })

  resource crm 'eventSubscriptions' = {
    name: 'crm'
    properties: { labels: ['inside'] }
  }

  resource absent 'eventSubscriptions' = if (isProduction) {
    name: 'absent'
    properties: {}
  }
}
