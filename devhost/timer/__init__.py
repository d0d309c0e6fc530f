"""Serves timer functions: schedules, listener, status and lease."""
