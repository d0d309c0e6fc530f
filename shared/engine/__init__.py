"""Implements the use cases: they gather, decide and act, through ports that adapters implement."""
