import { endpoint, prefixOf, defaults } from 'shared.bicep'

@discriminator('kind')
type destination = webhook | queue

type webhook = {
  kind: 'webhook'
  endpoint: endpoint
  batch: int?
  @secure()
  token: string?
}

type queue = {
  kind: 'queue'
  @minLength(3)
  name: string
  *: string
}

type levels = 'low' | 'high'
type pairs = [string, int]
type tree = {
  value: int
  left: tree?
  right: tree?
}

param destinations destination[] = [
  { kind: 'webhook', endpoint: { url: 'https://a.example/' } }
  { kind: 'queue', name: 'orders', account: 'acct' }
]
param level levels = 'high'
param pair pairs = ['a', 1]
@minLength(1)
@maxLength(3)
param labels string[] = ['x']
param optional string?
param optionalOrders { days: int?, hours: int }?
@minValue(1)
@maxValue(10)
param days int = 3
@allowed(['test', 'production'])
param environmentName string = 'test'
@secure()
param secret string = 'not so secret'
param rules resourceInput<'Microsoft.EventGrid/topics@2025-02-15'>.properties = { disableLocalAuth: true }
param root tree = { value: 1, left: { value: 2, left: null }, right: null }
param derived string = '${environmentName}-${days}'

resource types 'Microsoft.EventGrid/topics@2025-02-15' = {
  name: 'types-${derived}'
  location: resourceGroup().location
  tags: any({
    level: level
    pair: [pair[0], pair[1]]
    labels: labels
    optional: [optional ?? 'none', optionalOrders.?days ?? 7, optional]
    kinds: map(destinations, each => each.kind)
    batches: map(destinations, each => each.kind == 'webhook' ? (each.?batch ?? defaults.batch) : 0)
    secret: length(secret)
    root: [root.left.?value, root.?right.?value, root.left!.?left.?value]
    prefix: prefixOf('orders', days)
    imported: defaults
  })
  properties: rules
}
