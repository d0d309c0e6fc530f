"""Serves queue functions: listens, converts messages, and calls the queue service."""
