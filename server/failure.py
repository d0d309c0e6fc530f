"""Defines why a server does not start."""

from __future__ import annotations


class CannotStart(Exception):
    """What was given can't be served: a sentence that says why, and one that says what to do."""
