"""Implements the engine's ports: storage, endpoints, Entra ID; translates for Azure Functions."""
