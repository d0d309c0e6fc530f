"""Defines errors of storage requests, and what a trigger does in an outage."""

import asyncio
import logging

from devhost.errors import HostError

#: Seconds without a connection that Azure Functions survives: six tries of a request (measured,
#: host 4.1037.0). It also survives any time of 5xx.
LONGEST_OUTAGE = 24.0

_log = logging.getLogger(__name__)


class StaleReceiptError(Exception):
    """The message was deleted, updated or received again by another client."""


class QueueGoneError(Exception):
    """The queue does not exist, at least not now."""


class StorageBusyError(Exception):
    """Storage is unreachable, answers 5xx or answers nonsense; a retry may succeed."""


class StorageUnreachableError(StorageBusyError):
    """There is no connection to storage, or it was lost."""


class StorageRefusedError(Exception):
    """Storage rejected the request; a retry will not succeed."""


class Outage:
    """
    Logs when *trigger*'s storage begins to fail and when it recovers, once each.

    There may be no connection for *longest* seconds.
    """

    def __init__(self, trigger: str, longest: float) -> None:
        self._trigger = trigger
        self._longest = longest
        self._lasts = False
        self._silent_since = 0.0

    def failed(self, fault: StorageBusyError) -> None:
        """
        Log *fault*, unless the outage has been logged already.

        Raises:
            HostError: there has been no connection for too long.
        """
        now = asyncio.get_running_loop().time()
        if not self._lasts:
            _log.warning("%s: storage is failing, retrying: %s", self._trigger, fault)
        if not self._lasts or not isinstance(fault, StorageUnreachableError):
            self._silent_since = now
        self._lasts = True
        silent = now - self._silent_since
        if silent >= self._longest:
            raise HostError(f"{self._trigger}: storage is out of reach for {silent:.0f} s: {fault}")

    def end(self) -> None:
        """Log the recovery, if there was an outage."""
        if self._lasts:
            _log.warning("%s: storage is available again", self._trigger)
        self._lasts = False
