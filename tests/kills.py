"""Ends the process, as it were, at chosen requests to storage."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

import pytest


class Killed(BaseException):
    """The process ends."""


class Killer:
    """Counts requests while it is on; those of the numbers in *kills*, from 1 on, are not done."""

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        requests: Mapping[Any, Iterable[str]],
        kills: Container[int],
    ) -> None:
        self.requests, self.is_on = 0, True
        self._kills = kills
        for store, verbs in requests.items():
            for verb in verbs:
                patch.setattr(store, verb, self._guarded(getattr(store, verb)))

    def _guarded(self, act: Any) -> Any:
        def guarded(*args: Any, **named: Any) -> Any:
            if self.is_on:
                self.requests += 1
                if self.requests in self._kills:
                    raise Killed
            return act(*args, **named)

        return guarded
