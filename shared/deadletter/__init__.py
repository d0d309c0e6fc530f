"""Writes dead letters: records, batches of them, and names of their blobs."""
