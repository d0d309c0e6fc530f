"""What is stored in a database for good, row by row, and the faults of what is asked of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Generic, NamedTuple, TypeVar

from shared.adapters.sql.database import micros
from shared.engine.ports import Queue
from tests.simulation.kernel import Kernel, Process
from tests.simulation.ledger import SLOW
from tests.simulation.rows import KEYS, Change, Row
from tests.simulation.served_ledger import ServedLedger
from tests.simulation.storage import USUAL, Storm

Draw = Callable[[], float]


@dataclass(slots=True, kw_only=True)
class Fate:
    """What becomes of a request; of one that has no fault, how long it takes."""

    before: float = 0.0  # seconds until it takes effect
    after: float = 0.0  # and from then on


F = TypeVar("F", bound=Fate)


class StormHere(NamedTuple, Generic[F]):
    """What a storm of the plan is on a database."""

    name: str
    fate: Callable[[Draw], F]
    share: float  # of the requests that it would hit there
    statements: tuple[str, ...] = ()  # that are hit at any rate
    hits_writer: bool = False  # alone


class Mirror(Generic[F]):
    """
    The rows of a database, and its faults; *ledger* hears of each commit.

    *is_struck* counts a request, and tells whether its process is to be killed now, by *die*.
    """

    storms_here: Mapping[str, StormHere[F]]
    usual: type[F]
    yields: float  # of the requests that store nothing: they take a moment

    def __init__(
        self,
        kernel: Kernel,
        ledger: ServedLedger,
        storms: Sequence[Storm],
        chance: Random,
        seen: Counter[str],
        is_struck: Callable[[Process, Collection[str], str], bool],
        die: Callable[[Process, str], object],
    ) -> None:
        self.kernel, self.chance, self.seen = kernel, chance, seen
        self._ledger, self._storms = ledger, storms
        self._is_struck, self._die = is_struck, die
        self._fault, self._find = ledger.fault, ledger.find
        self.rows: dict[str, dict[Row, Row]] = {table: {} for table in KEYS}

    def due(self, queue: Queue, now: datetime) -> bool:
        """Tell whether a message of a queue is due that nobody has in hand."""
        at, name = micros(now), queue.value
        found = self.rows["messages"].values()
        return any(row[1] == name and row[4] == 0 and row[2] <= at for row in found)

    def _tell(self, process: Process, changes: Sequence[Change]) -> None:
        try:
            self._ledger.committed(process, changes)
        except Exception as error:  # noqa: BLE001 - the app would take it for its own
            self._find("harness", repr(error))

    def _keep(self, changes: Sequence[Change]) -> None:
        for each in changes:
            rows = self.rows[each.table]
            if each.old is not None:
                rows.pop(each.old[: KEYS[each.table]], None)
            if each.new is not None:
                rows[each.key] = each.new

    # ── Faults ──

    def _concerns(self, storm: Storm, *, is_write: bool) -> bool:
        """Tell whether a storm, which is near, can hit a request."""
        del storm, is_write
        return True

    def _by_storm(self, statement: str, *, is_write: bool) -> F | None:
        """Return what a storm does to a statement, if any hits it."""
        draw, now = self.chance.random, self.kernel.now
        for storm in self._storms:
            is_near = storm.since <= now < storm.until
            if is_near and self._concerns(storm, is_write=is_write) and draw() < storm.share:
                here = self.storms_here[storm.kind]
                is_hit = any(each in statement for each in here.statements) or draw() < here.share
                if is_hit and (is_write or not here.hits_writer):
                    return self._hit(here)
        return None

    def _hit(self, here: StormHere[F]) -> F:
        return here.fate(self.chance.random)

    def _without_fault(self, *, stores: bool) -> F:
        draw = self.chance.random
        if stores or draw() < self.yields:
            return (
                self.usual(before=draw() * USUAL)
                if draw() < 0.5
                else self.usual(after=draw() * USUAL)
            )
        return self.usual()

    def _note_slow(self, process: Process, began: float, what: str) -> bool:
        """Enter that a request took long, if so."""
        took = self.kernel.now - began
        if took > SLOW:
            self._fault(process, f"waits {took:.0f} s for {what}")
        return took > SLOW

    def _kill(self, process: Process, when: str, tasks: Collection[str], verb: str = "") -> None:
        """Kill who asks for something, in a transaction with these *tasks*."""
        named = [f"in {each}" for each in sorted(tasks)]
        self.seen.update(f"killed {each}" for each in ([f"at {verb}"] if verb else []) + named)
        self._die(process, " ".join(filter(None, (when, verb, *named))))
