resource ids 'Microsoft.EventGrid/topics@2025-02-15' = {
  name: 'ids'
  location: resourceGroup().location
  tags: any({
    group: [resourceGroup().id, resourceGroup().name, resourceGroup().location, resourceGroup().type]
    subscription: [subscription().id, subscription().subscriptionId, subscription().tenantId]
    tenant: tenant().tenantId
    deployment: deployment().name
    resourceId: [
      resourceId('Microsoft.EventGrid/topics', 'a')
      resourceId('Microsoft.EventGrid/topics/eventSubscriptions', 'a', 'b')
      resourceId('other', 'Microsoft.EventGrid/topics', 'a')
      resourceId('11111111-1111-1111-1111-111111111111', 'other', 'Microsoft.EventGrid/topics', 'a')
    ]
    extensionResourceId: extensionResourceId(resourceGroup().id, 'Microsoft.Authorization/locks', 'a')
    subscriptionResourceId: [
      subscriptionResourceId('Microsoft.Authorization/roleDefinitions', 'a')
      subscriptionResourceId('11111111-1111-1111-1111-111111111111', 'Microsoft.Authorization/roleDefinitions', 'a')
    ]
    tenantResourceId: tenantResourceId('Microsoft.Management/managementGroups', 'a')
    managementGroupResourceId: managementGroupResourceId('a', 'Microsoft.Authorization/policyDefinitions', 'b')
  })
}
