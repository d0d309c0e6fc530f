"""The package that an installation brings: the command, and what tests of users import."""
