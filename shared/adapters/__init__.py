"""The only place that talks to storage, endpoints and Azure Functions."""
