"""Stands in front of Azurite's blob service, and reports to the app what changes there."""
