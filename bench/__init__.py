"""Measurements: the real thing beside its floors, in one run."""
