"""The messages of a queue that this process has in hand."""

from __future__ import annotations

import asyncio
import heapq
import math
from collections import deque
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from shared.adapters.sql.database import micros, moment
from shared.adapters.sql.traits import SQL
from shared.engine.ports.leases import Lease
from shared.tasks import loop_time

ROOM = SQL.most_in_hand  # messages of each queue
BATCH = 256  # messages that one claim takes
AHEAD = timedelta(seconds=1)  # that messages are claimed before they are due
_AT_LEAST = AHEAD / 2  # that the first of them is: one claim takes what follows it
_LOOK_SECONDS = 60.0  # a clock that was set is noticed by then
_ALL_SECONDS = 3600.0  # between looks at everything that is due


class SqlReceipt(NamedTuple):
    """What is known of a message in hand."""

    number: int
    run: int  # as which it was taken
    due: datetime
    deaths: int = 0
    has_rows: bool = True  # rows that name it, beside its own


def receipt_of(lease: Lease) -> SqlReceipt:
    assert isinstance(lease.receipt, SqlReceipt)  # noqa: S101 - it is ours
    return lease.receipt


class Hand:
    """
    The messages of a queue in hand, and when the next is due that is in the table alone.

    A claim is made when `next_due` comes near, or `look_at` has come or somebody has asked for it
    (`has_to_look`). It begins at `floor`, and at the beginning of the table once `all_at` has come.
    `news` wakes who waits.
    """

    def __init__(self) -> None:
        self.ready: deque[Lease] = deque()  # due, and not handed over yet
        self.ahead: list[tuple[datetime, int, Lease]] = []  # a heap
        self.out: set[tuple[int, int]] = set()  # numbers and runs of what was handed over
        self.doubtful: list[int] = []  # numbers of messages that may be in it: nobody knows
        self.reserved = 0  # for messages that are being stored or claimed
        self.next_due: datetime | None = moment(0)  # at a start something may be
        self.news = asyncio.Event()
        self.floor = 0  # in microseconds: what was due before was claimed, or is others'
        self.all_at = 0.0  # by the loop's clock: when that is looked at, too
        self.look_at = math.inf  # by the loop's clock: when others may have stored something
        self.has_to_look = False  # for that, or what a claim may not have seen

    @property
    def room(self) -> int:
        return ROOM - len(self.ready) - len(self.ahead) - len(self.out) - self.reserved

    @property
    def is_worth_a_claim(self) -> bool:
        """Whether there is room for more than a message or two."""
        return self.room >= BATCH or not (self.ready or self.ahead or self.out)

    @property
    def claimable(self) -> int:
        """How many messages one claim may take."""
        return min(BATCH, self.room)

    @property
    def numbers(self) -> list[int]:
        leases = [*self.ready, *(lease for _, _, lease in self.ahead)]
        out = (number for number, _ in self.out)
        return [*out, *(receipt_of(each).number for each in leases), *self.doubtful]

    def doubt(self, numbers: Iterable[int]) -> None:
        """Note messages that a transaction of unknown outcome has taken."""
        self.doubtful = [*dict.fromkeys([*self.doubtful, *numbers])]

    def note(self, due: datetime) -> None:
        """Note that a message in the table alone is due then."""
        self.next_due = due if self.next_due is None else min(due, self.next_due)
        self.floor = min(self.floor, micros(due))
        self.news.set()

    def look_anew(self, now: datetime) -> None:
        """Look at the table, whatever a claim that is under way finds there."""
        self.has_to_look = True
        self.note(now)

    def begin_claim(self, until: datetime) -> int:
        """Return from when on to read what is due until then; what is noted now comes next."""
        if self.all_at <= loop_time():
            self.floor, self.all_at = 0, loop_time() + _ALL_SECONDS
        floor, self.floor = self.floor, micros(until) + 1
        return floor

    def end_claim(self, floor: int, read_to: int, next_due: datetime | None) -> None:
        """Know the table from *floor* to *read_to*, and what was noted meanwhile of before that."""
        self.next_due = next_due
        if self.floor < floor:
            self.note(moment(self.floor))
        self.floor = min(self.floor, read_to)

    def take_due(self, now: datetime, most: int) -> list[Lease]:
        """Take what is due out of the hand, in order."""
        while self.ahead and self.ahead[0][0] <= now:
            self.ready.append(heapq.heappop(self.ahead)[-1])
        leases = [self.ready.popleft() for _ in range(min(most, len(self.ready)))]
        self.out.update(receipt_of(each)[:2] for each in leases)
        return leases

    def forget(self) -> None:
        """Have nothing in hand but what was handed over."""
        self.ready.clear()
        self.ahead.clear()

    def wants_a_claim(self, now: datetime) -> bool:
        """Tell whether to look at the table; a look for what others may have stored is no news."""
        return self.has_to_look or self.is_behind(now)

    def is_behind(self, now: datetime, ahead: timedelta = _AT_LEAST) -> bool:
        """Tell whether something in the table alone is due, or will be within *ahead*."""
        return self.next_due is not None and self.next_due - ahead <= now

    def wait(self, now: datetime) -> float:
        """Return for how many seconds nothing is to be done, but for news."""
        moments = [due for due, *_ in self.ahead[:1]]
        if self.next_due is not None and not self.is_behind(now):
            moments.append(self.next_due - _AT_LEAST)
        waits = [(each - now).total_seconds() for each in moments]
        return max(0.0, min([*waits, self.look_at - loop_time(), _LOOK_SECONDS]))
