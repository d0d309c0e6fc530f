"""Defines event subscriptions: filters, the handshake, header and endpoint rules. Pure."""
