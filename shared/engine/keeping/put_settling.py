"""Settles messages where nothing is stored of whose they are: what follows is put."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta

from shared.delivery.attempt_record import AttemptRecord
from shared.engine.keeping.late_successes import LateSuccesses
from shared.engine.keeping.requeue import Requeue
from shared.engine.ports import Metrics
from shared.engine.ports.settling import FollowUp, Settled, Settlement


class PutSettling:
    """Settling of one message."""

    def __init__(
        self,
        requeue: Requeue,
        metrics: Metrics,
        record: Callable[[Sequence[AttemptRecord]], object],  # has attempts stored soon
    ) -> None:
        self._requeue = requeue
        self.metrics = metrics
        self._record = record
        self._late = LateSuccesses(sender=requeue.sender, metrics=metrics)
        self.comes_again = self._late.comes_again
        self.take_back = self._late.take_back

    async def settle(self, parts: Sequence[Settlement], repeat_for: timedelta) -> list[Settled]:
        async with self._late.storing():
            together: defaultdict[object, list[FollowUp]] = defaultdict(list)
            for follow_up in (each for part in parts for each in part.follow_ups):
                alike = follow_up.part.due, follow_up.is_held
                together[id(follow_up) if follow_up.blob_due_at else alike].append(follow_up)
            if together:
                await _all_stored(self._store(each, repeat_for) for each in together.values())
            if attempts := [each for part in parts for each in part.attempts]:
                self._record(attempts)
            told = self._late.told(parts)
            self._late.count_drops(parts, self.metrics)
            return told

    async def _store(self, together: Sequence[FollowUp], repeat_for: timedelta) -> None:
        """Put what is due together, but what was delivered meanwhile."""
        _, is_held, blob_due_at = together[0]
        if left := self._late.without(each.part for each in together):
            self._late.stored(
                await self._requeue.at_due(
                    *left, is_held=is_held, blob_due_at=blob_due_at, repeat_for=repeat_for
                )
            )


async def _all_stored(puts: Iterable[Awaitable[object]]) -> None:
    """Wait for all *puts*, side by side; then raise the error of the first one that failed."""
    for each in await asyncio.gather(*puts, return_exceptions=True):
        if isinstance(each, BaseException):
            raise each
