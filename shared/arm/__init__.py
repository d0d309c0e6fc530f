"""Reads and writes ARM documents: requests, stored documents, answers and values. Pure."""
