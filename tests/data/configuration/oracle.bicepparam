using 'oracle.bicep'
