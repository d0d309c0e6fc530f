"""Reads access tokens of Entra ID, fetches its signing keys, and acquires tokens for webhooks."""
