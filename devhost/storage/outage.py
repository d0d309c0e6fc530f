"""One trigger's trouble with storage: told when it begins and when it ends, and not in between."""

from __future__ import annotations

import logging

from devhost.storage.errors import StorageBusyError

_log = logging.getLogger(__name__)


class Outage:
    """Knows whether storage fails *who*, a trigger as a person would call it."""

    def __init__(self, who: str) -> None:
        self._who = who
        self._lasts = False

    def met(self, fault: StorageBusyError) -> None:
        """Tell of *fault*, unless it is one more of many: the first says enough."""
        if not self._lasts:
            _log.warning("%s: storage fails, still trying: %s", self._who, fault)
        self._lasts = True

    def over(self) -> None:
        """Tell that storage works, if it had not."""
        if self._lasts:
            _log.warning("%s: storage works again", self._who)
        self._lasts = False
