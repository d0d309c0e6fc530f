"""Declares the port to group commit: publications that are stored together."""

from __future__ import annotations

from typing import Protocol

from shared.delivery.messages.publication import Publication


class Commits(Protocol):
    """Stores publications, those together that arrive while others are being stored."""

    async def commit(self, publication: Publication) -> None:
        """
        Return once everything of *publication* is stored.

        Raises:
            StorageUnavailable: it may or may not be stored; other publications may be.
        """
