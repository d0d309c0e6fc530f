"""The store in SQLite, in a folder that one process has."""
