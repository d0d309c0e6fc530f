"""Checks a folder of Bicep templates without Azure."""
