"""Timer functions: schedules, the listener of a timer, its status and its lease."""
