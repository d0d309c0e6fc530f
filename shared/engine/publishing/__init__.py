"""Accepts events: authorizes the publisher, matches, stores, answers."""
