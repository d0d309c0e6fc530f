"""Benchmarks: the app against lower bounds measured in the same run."""
