"""Finds the storage account of a connection setting, and explains its failures."""
