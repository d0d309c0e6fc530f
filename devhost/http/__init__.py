"""Serves HTTP functions and the host's own pages."""
