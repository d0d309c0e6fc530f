"""Manages event subscriptions: commands, their options, and the documents that these make."""
