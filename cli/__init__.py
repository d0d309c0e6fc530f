"""Runs the operator's command line."""
