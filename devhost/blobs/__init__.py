"""Stands in front of Azurite's blob service, and tells the app what changes there."""
