"""Storage that all processes share: a request takes time, may fail, and may outlive its caller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import NamedTuple, NoReturn, TypeVar

from pushgrid.testing.memory import MemoryStore
from pushgrid.testing.memory.faults import StoreRequest
from shared.engine.ports import Queue
from shared.errors import StorageUnavailable, StorageUnreachable
from shared.watched_clock import WatchedClock
from tests.simulation.kernel import Kernel, StorageClock
from tests.simulation.ledger import SLOW, Ledger
from tests.simulation.plan import GIVES_UP

T = TypeVar("T")

LONGEST = 60.0  # seconds until a request has its effect
USUAL = 0.02
UNREACHABLE = 1.0  # seconds without an answer


class Storm(NamedTuple):
    """How often requests fail, from a time on until another."""

    since: float
    until: float
    kind: str
    share: float  # of the requests
    ports: tuple[str, ...] = ()  # all, if none is named; accounts of dead letters by their names

    def concerns(self, request: StoreRequest) -> bool:
        if not self.ports or request.port in self.ports:
            return True
        return any(getattr(each, "account", "") in self.ports for each in request.arguments)


class Fate(NamedTuple):
    """What becomes of a request."""

    before: float = 0.0  # seconds until it has its effect
    after: float = 0.0  # and until its answer comes
    is_done: bool = True
    is_answered: bool = True
    copies: int = 0  # effects beyond the first
    is_timed: bool = True
    is_known: bool = True  # to its caller, once it has its effect
    is_outage: bool = False


_FATES: Mapping[str, Callable[[Callable[[], float], StoreRequest], Fate]] = {
    "slow": lambda draw, _: Fate(draw() * GIVES_UP / 2, draw() * GIVES_UP / 2),
    "fails before": lambda draw, _: Fate(draw() * 3, is_done=False, is_answered=False),
    "fails after": lambda draw, _: Fate(draw() * 3, draw() * 3, is_answered=False),
    "takes effect late": lambda draw, _: Fate(
        GIVES_UP + draw() * (LONGEST - GIVES_UP), is_answered=False
    ),
    "stored twice": lambda draw, request: Fate(
        draw(), draw(), copies=int((request.port, request.method) == ("queues", "put"))
    ),
    "outage": lambda draw, _: Fate(
        draw() * GIVES_UP, is_done=False, is_answered=False, is_outage=True
    ),
    "untimed": lambda draw, _: Fate(draw() * USUAL, is_timed=False),
}


class Storage:
    """
    What is stored, and the way to it; *seen* counts each kind of fault that occurred.

    *between* is called before and after each effect, *shown* when a message becomes visible.
    """

    def __init__(
        self,
        kernel: Kernel,
        ledger: Ledger,
        storms: Sequence[Storm],
        chance: Random,
        seen: Counter[str],
        between: Callable[[StoreRequest, str], object],
        shown: Callable[[Queue, datetime], object],
    ) -> None:
        self._kernel, self._ledger = kernel, ledger
        self._storms, self._chance, self._seen = storms, chance, seen
        self._between, self._shown = between, shown
        self.clock = StorageClock(kernel)
        self.store = MemoryStore(self.clock, _no_threads, seam=self._request)
        self.clocks: dict[str, WatchedClock] = {}  # of processes

    def _request(self, request: StoreRequest, effect: Callable[[], T], /) -> T:
        """Do as `Seam`, in a strand of the process that asks; who judges is answered at once."""
        if self._kernel.current is None:
            return effect()
        kernel, began = self._kernel, self._kernel.now
        fate = self._fate(request)
        self._between(request, "before")
        result, fault = self._effect(request, effect, fate)
        self._between(request, "after")
        kernel.sleep(fate.after)
        took = kernel.now - began
        if not fate.is_answered:
            self._ledger.was_not_answered(request, result)
            raise StorageUnreachable if took > UNREACHABLE else StorageUnavailable
        told = self.clock.now().replace(microsecond=0)  # as a header has it
        self.clocks[request.process].storage_answered(told if fate.is_timed else None, took)
        self._ledger.was_answered(request, took, is_timed=fate.is_timed)
        self._seen["slow"] += took > SLOW
        self._seen["untimed"] += not fate.is_timed
        if fault:
            raise fault
        return result  # type: ignore[return-value]

    def _fate(self, request: StoreRequest) -> Fate:
        now, draw = self._kernel.now, self._chance.random
        for storm in self._storms:
            is_near = storm.since <= now < storm.until and storm.concerns(request)
            if is_near and draw() < storm.share:
                return _FATES[storm.kind](draw, request)
        takes = draw() * USUAL
        return Fate(before=takes) if draw() < 0.5 else Fate(after=takes)

    def _effect(
        self, request: StoreRequest, effect: Callable[[], T], fate: Fate
    ) -> tuple[T | None, Exception | None]:
        """Wait for the effect, if there is one before the request is given up."""
        if fate.before > GIVES_UP:
            at, late = self._kernel.now + fate.before, fate._replace(is_known=False)
            self._kernel.at(at, lambda: self._do(request, effect, late))
        self._kernel.sleep(min(fate.before, GIVES_UP))
        if fate.is_done and fate.before <= GIVES_UP:
            return self._do(request, effect, fate)
        if not fate.is_done:
            self._seen["outage" if fate.is_outage else "fails before"] += 1
        return None, None

    def _do(
        self, request: StoreRequest, effect: Callable[[], T], fate: Fate
    ) -> tuple[T | None, Exception | None]:
        """Return the result, or the fault that storage answers."""
        result = None
        for copy in range(1 + fate.copies):
            try:
                result = effect()
            except Exception as error:  # noqa: BLE001 - the answer of storage
                return None, error
            self._ledger.took_effect(request, result, is_known=fate.is_known and not copy)
            self._seen["stored twice"] += copy
            self._seen["takes effect late"] += not fate.is_known
            self._seen["fails after"] += fate.is_known and not fate.is_answered
            if request.port == "queues" and request.method in {"put", "hide", "replace"}:
                queue, wait = Queue(str(request.arguments[0])), request.arguments[-1]
                hidden = wait if isinstance(wait, timedelta) else timedelta()
                self._shown(queue, self.clock.now() + hidden)
        return result, None


async def _no_threads(_: object) -> NoReturn:
    raise AssertionError("each process has its own view of the store")
