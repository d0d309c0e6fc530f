"""Declares what a store knows of itself, where it can tell."""

from __future__ import annotations

from typing import NamedTuple


class Unfinished(NamedTuple):
    """Events of a subscription that have not ended; those that are given up do not wait."""

    waiting: int
    awaiting_blob: int = 0  # given up, and their dead letters are to be written


class StoreMeasure(NamedTuple):
    """A figure about a store, named as in Prometheus."""

    name: str
    help: str
    value: float
    only_rises: bool = False  # since the process began
