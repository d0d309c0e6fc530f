"""Runs the app in memory for tests: the fixture `pushgrid` of pytest (docs/testing.md)."""
