"""Models the costs of a month from list prices and measured storage operations."""
