"""Defines event subscriptions: filters, handshake rules, endpoint rules. Pure."""
