"""Delivers queue messages: pushes, decides what follows, stores it, records the attempt."""
