"""Finds messages that may have ended processes, and lets nothing else run beside them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from shared.adapters.sql.claiming import claim_suspects, in_hand, lease_of, open_row
from shared.adapters.sql.database import Database, WriteOptions, WriteTransaction
from shared.adapters.sql.hand import BATCH, receipt_of
from shared.adapters.sql.messages import MINE
from shared.engine.ports.leases import Lease

DEATHS = 6  # from then on it does not run
SUSPECT_SECONDS = 3.0  # a process that lives so long with suspects has survived them


class Suspects:
    """
    What nothing else is handed over beside; *end* records one that has ended too many processes.

    They run one by one, then two, four and so on together: twice as many after each time that this
    process has survived.
    """

    def __init__(self, database: Database, end: Callable[[Lease, str], Awaitable[None]]) -> None:
        self._database = database
        self._end = end
        self.may_be_left = self._is_told = True
        self._found: list[Lease] = []  # the next of them, in hand and not handed over
        self._doubtful: list[int] = []  # numbers of those that may be: nobody knows
        self._running: set[int] = set()
        self._together = 1
        self._survived_at = 0.0  # by the loop's time
        self._looking = asyncio.Lock()
        self._is_over = asyncio.Event()  # set when they are out of hand

    @property
    def numbers(self) -> list[int]:
        """Those of what is in hand, and was not handed over."""
        return [*(receipt_of(each).number for each in self._found), *self._doubtful]

    def look_anew(self) -> None:
        """Look for some, whatever a look that is under way finds."""
        self.may_be_left = self._is_told = True

    def forget(self) -> None:
        """Have nothing in hand but what was handed over."""
        self._found = []

    def has_ended(self, number: int) -> None:
        """Note that a message is out of hand."""
        self._running.discard(number)
        if not self._running:
            self._is_over.set()

    async def claim(self, most: int) -> list[Lease]:
        """Take some, once those that run have ended or were survived; none: ask again, or go on."""
        now = asyncio.get_running_loop().time
        async with self._looking:
            if not self.may_be_left:
                return []
            if not self._running or now() >= self._survived_at:
                await self._acquit()
                return await self._take(most)
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._survived_at):
                await self._is_over.wait()
        return []

    async def _acquit(self) -> None:
        """Let what did not end this process have no deaths any more: it is slow."""
        if slow := [(number, self._database.run) for number in self._running]:
            statement = f"UPDATE messages SET deaths = 0 WHERE {MINE}"
            await self._database.write_on_loop(lambda writing: writing.run_all(statement, slow))
            self._running.clear()

    async def _take(self, most: int) -> list[Lease]:
        if not self._found:
            self._is_told = False
            await self._find(min(self._together, most))
        if not self._found:
            self.may_be_left = self._is_told
            return []
        if receipt_of(self._found[0]).deaths >= DEATHS:
            why = f"{DEATHS} processes have ended while it was delivered"
            await self._end(self._found[0], why)
            self._found = []
            return []
        found, self._found = self._found, []
        self._together = min(2 * self._together, BATCH)
        self._survived_at = asyncio.get_running_loop().time() + SUSPECT_SECONDS
        self._is_over.clear()
        self._running.update(receipt_of(each).number for each in found)
        return found

    async def _find(self, most: int) -> None:
        doubtful = self._doubtful
        taken: list[int] = []

        def write(writing: WriteTransaction) -> list[Lease]:
            run = self._database.run
            rows = in_hand(writing, run, doubtful) or claim_suspects(writing, run, most)
            taken[:] = [row[0] for row in rows]
            return [lease_of(open_row(writing, row), run) for row in rows]

        def then(leases: list[Lease] | None) -> None:
            self._found = leases or []
            self._doubtful = [] if leases is not None else taken or doubtful

        await self._database.write_on_loop(write, WriteOptions(claims=taken), then)
