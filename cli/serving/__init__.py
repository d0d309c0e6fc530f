"""Keeps the deployment of `pushgrid serve` as a file says."""
