"""Decides when nothing is sent to an endpoint, and how it gets its events again."""
