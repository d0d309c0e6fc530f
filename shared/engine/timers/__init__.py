"""Does the work of the timers: long waits, dead letters, poison messages, housekeeping."""
