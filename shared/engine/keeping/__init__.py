"""Keeps what several use cases share: terms, messages for later, and records of what happened."""
