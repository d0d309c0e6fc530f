"""Stores all of a deployment in an SQL database: SQLite."""
