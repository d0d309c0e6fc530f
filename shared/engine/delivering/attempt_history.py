"""Writes the rows of attempts beside delivering."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from shared import telemetry
from shared.clock import Clock
from shared.delivery.attempt_record import KEPT_FOR, AttemptRecord
from shared.delivery.policy import EndState
from shared.engine.ports import AttemptLog, OffLoop
from shared.settings import AttemptLogging
from shared.tasks import Tasks, loop_time

QUIET_FOR = timedelta(seconds=30)  # after rows were lost; what comes meanwhile is not recorded
MOST_UNWRITTEN = 10_000  # rows that wait or are being written, of 2 to 4 KiB


@dataclass(slots=True, kw_only=True)
class AttemptHistory:
    """
    The history of one process: no message waits for its rows.

    One write is under way at a time; what comes meanwhile shares the next. Rows that can't be
    written, or are too many, are lost, and then it pauses.
    """

    log: AttemptLog
    off_loop: OffLoop
    tasks: Tasks
    logging: AttemptLogging
    clock: Clock
    logs_successes: bool = True
    _quiet_until: float = float("-inf")  # in seconds of the loop's clock
    _waiting: list[AttemptRecord] = field(default_factory=list)
    _being_written: int = 0
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def keeps(self, state: EndState | None) -> bool:
        if self.logging is AttemptLogging.FAILURES:
            return state is not EndState.DELIVERED
        return self.logging is AttemptLogging.ALL

    def add(self, records: Iterable[AttemptRecord]) -> None:
        """Have *records* written soon."""
        if loop_time() < self._quiet_until:
            return
        # The tables of older days are dropped, and must not come back.
        oldest = self.clock.now().date() - KEPT_FOR
        kept = [each.clipped for each in records if each.published_at.date() >= oldest]
        room = MOST_UNWRITTEN - len(self._waiting) - self._being_written
        self._waiting += kept[:room]
        if len(kept) > room:
            self._lost(len(kept) - room, f"{MOST_UNWRITTEN} rows wait to be written")
        if self._waiting and not self._turn.locked():
            self.tasks.spawn(self.write_all())

    async def write_all(self) -> None:
        """Write all rows that wait, once those are written that are being written."""
        async with self._turn:
            while self._waiting:
                records, self._waiting = self._waiting, []
                self._being_written = len(records)
                await self._write(records)
                self._being_written = 0

    async def _write(self, records: list[AttemptRecord]) -> None:
        try:
            await self.off_loop(partial(self.log.write, records))
        except Exception as error:  # noqa: BLE001 - nothing depends on it
            count = len(records) + len(self._waiting)
            self._waiting.clear()
            self._lost(count, f"{type(error).__name__}: {error}")

    def _lost(self, count: int, why: str) -> None:
        seconds = QUIET_FOR.total_seconds()
        self._quiet_until = loop_time() + seconds
        telemetry.error("attempts.lost", count=count, quiet_seconds=seconds, detail=why)
