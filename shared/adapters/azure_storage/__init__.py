"""Reads and writes queues, tables and blobs of the storage account."""
