"""The app's functions: read from function.json, imported and invoked."""
