"""Builds push requests: batches of events, their headers and bodies."""
