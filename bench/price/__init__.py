"""Measures what a delivery costs: processor time, and where the host's goes."""

from bench.price.command import main as main
