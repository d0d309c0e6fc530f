"""Queue functions: the listener of a queue, its messages and the queue service."""
