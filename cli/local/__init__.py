"""Runs deployments and subscribers on this machine, and tells what happens in them."""
