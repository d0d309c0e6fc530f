"""Decides how many pushes of each subscription run at a time, and which wait."""
