"""Reads the app's functions from function.json, imports and invokes them."""
