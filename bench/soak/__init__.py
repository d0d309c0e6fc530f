"""Attacks a running deployment and counts what was lost: kills, faults, outages, shortages."""

from bench.soak.command import main as main
