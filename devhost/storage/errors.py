"""Defines errors of storage requests, and the log lines of an outage."""

import logging

_log = logging.getLogger(__name__)


class StaleReceiptError(Exception):
    """The message was deleted, updated or received again by another client."""


class QueueGoneError(Exception):
    """The queue does not exist, at least not now."""


class StorageBusyError(Exception):
    """Storage is unreachable, answers 5xx or answers nonsense; a retry may succeed."""


class StorageRefusedError(Exception):
    """Storage rejected the request; a retry will not succeed."""


class Outage:
    """Logs when *trigger*'s storage begins to fail and when it recovers, once each."""

    def __init__(self, trigger: str) -> None:
        self._trigger = trigger
        self._lasts = False

    def begin(self, fault: StorageBusyError) -> None:
        """Log *fault*, unless the outage has been logged already."""
        if not self._lasts:
            _log.warning("%s: storage is failing, retrying: %s", self._trigger, fault)
        self._lasts = True

    def end(self) -> None:
        """Log the recovery, if there was an outage."""
        if self._lasts:
            _log.warning("%s: storage is available again", self._trigger)
        self._lasts = False
