"""Lets the processes that deliver know how many they are, by a row that each renews."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from shared import telemetry
from shared.clock import Clock, timestamp
from shared.delivery.pace import ALONE, Share, share_of
from shared.engine.ports import PROCESSES, OffLoop, ResourceStore, Table
from shared.errors import AppError
from shared.tasks import Tasks, loop_time

RENEWED_EVERY = 5.0  # seconds
RENEWAL_AGAIN_IN = 1.0  # seconds
VALID_FOR = 10.0  # seconds for which a share that was read is used
ALIVE_FOR = 30.0  # seconds for which a row that nobody renews is left
_FIRST = "-"  # sorts before the digits with which other names begin


class _Row(NamedTuple):
    """The row of another process, as it was read."""

    process: str
    etag: str


@dataclass(slots=True, kw_only=True)
class Processes:
    """
    The share of this process in the limits of the deployment.

    It costs nothing until an endpoint with such a limit asks; then every `RENEWED_EVERY` a write
    and a list of the rows. A process counts as long as its row is there; whoever sees a row
    unchanged for `ALIVE_FOR` deletes it. A share is used for `VALID_FOR` after its rows were read,
    and no longer: without storage there is none. A process whose row was not there has a share at
    once if it is alone, else after `VALID_FOR`: by then the others count it. So any two that have a
    share count each other, and their shares never exceed a limit. No wall clock takes part.
    """

    rows: ResourceStore
    clock: Clock
    off_loop: OffLoop
    tasks: Tasks
    name: str  # of this process
    # All times are in seconds of the loop's clock.
    _share: Share = ALONE
    _begins_at: float = math.inf  # when the share may be used; endless while others may not know
    _ends_at: float = 0.0  # until then
    _renew_at: float = 0.0
    _is_renewing: bool = False
    _has_failed: bool = False
    _seen_at: dict[_Row, float] = field(default_factory=dict)  # when a row was read first
    _waiting: dict[Callable[[], None], None] = field(default_factory=dict)

    def come_first(self) -> None:
        """
        Stand before the processes that receive no retries, from the first share on.

        What has no share waits on `retries`. If those who receive it had none either, because
        deliveries and retries scale apart, it would wait for ever.
        """
        has_begun = self._ends_at or self._is_renewing
        if not has_begun and not self.name.startswith(_FIRST):
            self.name = _FIRST + self.name

    def share(self) -> Share | None:
        """Return the share; ``None``: there is none now; `tell` says when a read has ended."""
        now = loop_time()
        if not self._is_renewing and now >= self._renew_at:
            self._is_renewing = True
            self.tasks.spawn(self._renew())
        return self._share if self._begins_at <= now < self._ends_at else None

    def tell(self, again: Callable[[], None]) -> None:
        """Call *again* after the next read, if one is under way."""
        if self._is_renewing:
            self._waiting[again] = None

    async def _renew(self) -> None:
        began = loop_time()
        old = [row for row, at in self._seen_at.items() if began - at >= ALIVE_FOR]
        try:
            others = await self.off_loop(partial(self._read, old))
        except AppError as error:
            if not self._has_failed:
                telemetry.error("limits.unshared", detail=str(error))
            self._has_failed, self._renew_at = True, loop_time() + RENEWAL_AGAIN_IN
        else:
            self._has_failed, self._renew_at = False, began + RENEWED_EVERY
            self._learn(others, began)
        finally:
            self._is_renewing = False
            waiting, self._waiting = self._waiting, {}
        for each in waiting:
            each()

    def _learn(self, others: Sequence[_Row], began: float) -> None:
        now = loop_time()
        self._seen_at = {row: self._seen_at.get(row, now) for row in others}
        self._share = share_of(self.name, [row.process for row in others])
        self._ends_at = began + VALID_FOR
        if self._begins_at == math.inf:
            self._begins_at = now + (VALID_FOR if others else 0)

    def _read(self, old: Sequence[_Row]) -> Sequence[_Row]:
        """
        Write the row of this process, delete *old* ones, and return those of others.

        Raises:
            AppError: storage did not answer, or the row was changed meanwhile.
        """
        known = self.rows.get(Table.TOPICS, PROCESSES, self.name)
        if known is None:
            self._begins_at = math.inf
        document, etag = {"renewed": timestamp(self.clock.now())}, known.etag if known else None
        self.rows.put(Table.TOPICS, PROCESSES, self.name, document, etag)
        for row in old:
            self.rows.delete(Table.TOPICS, PROCESSES, *row)
        found = self.rows.list(Table.TOPICS, PROCESSES)
        return [_Row(each.name, each.etag) for each in found if each.name != self.name]
