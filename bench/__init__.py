"""Compares the app with lower bounds that are measured in the same run."""
