"""Keeps in memory what was read of storage, and counts until they are written."""
