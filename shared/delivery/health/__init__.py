"""Decides when an endpoint is held, and how held deliveries come back."""
