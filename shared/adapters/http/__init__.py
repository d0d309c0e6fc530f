"""Sends HTTP requests over sockets of its own, to addresses that the outbound guard allows."""
