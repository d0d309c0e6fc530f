"""Who wants events: subscriptions, filters, their ARM form, handshakes, endpoint rules. Pure."""
