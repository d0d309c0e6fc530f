using 'shop.bicep'

param location = 'here'
param deadLetters = true
param receivers = [
  { name: 'crm', url: 'https://127.0.0.1:9001/', prefixes: ['/a', '/b'] }
  { name: 'erp', url: 'https://127.0.0.1:9002/' }
]
