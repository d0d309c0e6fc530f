"""Reads and writes delivery messages: groups of deliveries as queue messages."""
