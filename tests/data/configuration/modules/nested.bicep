param prefix string
param depth int

module inner 'topic.bicep' = [for i in range(0, depth): {
  name: 'inner-${i}'
  params: { name: '${prefix}-${i}', number: depth }
}]

output names array = [for i in range(0, depth): '${inner[i].outputs.name}!']
output first string = inner[0].outputs.name
