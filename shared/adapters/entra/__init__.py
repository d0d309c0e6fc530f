"""Verifies access tokens of Entra ID, fetches its signing keys, and gets tokens for webhooks."""
