"""Records attempts for operators, without ever delaying delivery."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from shared import telemetry
from shared.clock import Clock
from shared.delivery.attempt_record import KEPT_FOR, AttemptRecord
from shared.delivery.policy import (
    EndState,
)
from shared.engine.ports import Attempts
from shared.settings import AttemptLogging

QUIET_FOR = timedelta(seconds=30)  # after a failed write; what comes meanwhile is not recorded


@dataclass(slots=True, kw_only=True)
class AttemptHistory:
    """The history of one process. After a failed write it pauses."""

    log: Attempts
    logging: AttemptLogging
    clock: Clock
    _quiet_until: datetime | None = None
    _waiting: list[AttemptRecord] = field(default_factory=list)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def keeps(self, state: EndState | None) -> bool:
        if self.logging is AttemptLogging.FAILURES:
            return state is not EndState.DELIVERED
        return self.logging is AttemptLogging.ALL

    async def write(self, records: list[AttemptRecord]) -> None:
        """Store *records*, with those of others that wait; give up what can't be stored soon."""
        # The tables of older days are dropped, and must not come back.
        oldest = self.clock.now().date() - KEPT_FOR
        kept = [each for each in records if each.published_at.date() >= oldest]
        if not kept:
            return
        self._waiting += kept
        async with self._turn:
            waiting, self._waiting = self._waiting, []
            now = self.clock.now()
            if waiting and not (self._quiet_until and now < self._quiet_until):
                await self._write(waiting, now)

    async def _write(self, records: list[AttemptRecord], now: datetime) -> None:
        try:
            await self.log.write(records)
        except Exception as error:  # noqa: BLE001 - never delays delivery
            self._quiet_until = now + QUIET_FOR
            telemetry.error(
                "attempts.lost",
                count=len(records),
                quiet_seconds=QUIET_FOR.total_seconds(),
                detail=f"{type(error).__name__}: {error}",
            )
