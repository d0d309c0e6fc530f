"""Hands over to the app what stands in Azure Functions: settings, storage, senders and threads."""
