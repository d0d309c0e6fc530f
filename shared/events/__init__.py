"""What was published: events, topics, input schemas, keys. Pure."""
