"""
A small local host for this app's kinds of function: HTTP, queue and timer, v1 model, one process.

It knows what Azure Functions does to a function app, and nothing about the app. `docs/devhost.md`
has the map; "Storage.Common" in a source is azure-sdk-for-net's
Microsoft.Azure.WebJobs.Extensions.Storage.Common.
"""
