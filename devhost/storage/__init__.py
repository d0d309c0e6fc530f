"""The storage account of a connection setting, and its failures."""
