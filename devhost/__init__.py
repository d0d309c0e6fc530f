"""
Runs Azure Functions locally: HTTP, queue and timer triggers, v1 model, one process.

It knows nothing about the app that it runs. `devhost/README.md` has the map. "Storage.Common" in a
source is azure-sdk-for-net's Microsoft.Azure.WebJobs.Extensions.Storage.Common.
"""
