"""Gates with threads, their clock, and pushes that last until they are let go."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from queue import SimpleQueue
from typing import Any, cast

from pushgrid.testing.memory import Counted, FakeClock, MemoryResources
from shared.adapters.push_threads import PooledThreads
from shared.adapters.storage.health_table import TableHealth
from shared.delivery.outcome import Outcome
from shared.delivery.policy import DeliveryTerms
from shared.delivery.requests.push_batch import Loaded
from shared.delivery.slots.shares import Share
from shared.delivery.slots.slots import THREADS, Slots
from shared.engine.delivering.answers import Attempted, NotNow, Result
from shared.engine.delivering.clock_records import ClockRecords
from shared.engine.delivering.gate import Gate
from shared.engine.delivering.gates import Gates
from shared.engine.delivering.late_answers import LateAnswers
from shared.engine.delivering.parts import Part
from shared.engine.delivering.shared_health import SharedHealth
from shared.engine.delivering.visit import Request, Visit
from shared.subscriptions.subscription import EventSubscription
from tests.builders import a_delivery, a_message, a_subscription, an_outcome, terms

PATIENCE = 30  # seconds after which a test that hangs fails; pushes hang for longer
MINUTE = timedelta(minutes=1)

Push = Callable[[Request], Attempted]


def positions(request: Request) -> tuple[int, ...]:
    """Return which events a request has."""
    return tuple(loaded.delivery.position for loaded in request.batch)


class Work:
    """
    Pushes that last until they are let go, and then succeed.

    *sent* has the positions of each request's events, in the order in which requests began.
    *most* is how many were under way at a time.
    """

    def __init__(self, clock: FakeClock) -> None:
        self.sent: list[tuple[int, ...]] = []
        self.most = 0
        self._clock = clock
        self.outcome = Outcome.DELIVERED
        self._under_way = 0
        self._begun: SimpleQueue[tuple[int, ...]] = SimpleQueue()
        self._changed = threading.Condition()
        self._allowed: set[int] = set()
        self._is_open = False

    def __call__(self, request: Request) -> Attempted:
        began_at, found = self._clock.now(), positions(request)
        with self._changed:
            self.sent.append(found)
            self._under_way += 1
            self.most = max(self.most, self._under_way)
            self._begun.put(found)
            assert self._changed.wait_for(lambda: self._may_end(found), 2 * PATIENCE)
            self._under_way -= 1
        return attempted(self._clock, self.outcome, began_at)

    def next(self, count: int = 1) -> list[tuple[int, ...]]:
        """Wait for so many requests to begin; return their events."""
        return sorted(self._begun.get(timeout=PATIENCE) for _ in range(count))

    def let_go(self, *events: int) -> None:
        """Let requests with these events end; without any, all requests from now on."""
        with self._changed:
            self._allowed.update(events)
            self._is_open = self._is_open or not events
            self._changed.notify_all()

    def _may_end(self, found: tuple[int, ...]) -> bool:
        return self._is_open or not self._allowed.isdisjoint(found)


def attempted(
    clock: FakeClock, outcome: Outcome = Outcome.DELIVERED, began_at: datetime | None = None
) -> Attempted:
    """Return what came of a request that ends now."""
    status = 200 if outcome is Outcome.DELIVERED else 503
    return Attempted(an_outcome(outcome, status), began_at or clock.now(), clock.now(), 0.0)


class House:
    """
    Gates with *threads* threads, and slots of which all start with *slots* and get no more.

    *push* may be set until something enters.
    """

    def __init__(
        self, *, slots: int = 2, most: int | None = None, threads: int = 8, share: Share = THREADS
    ) -> None:
        self.clock = FakeClock()
        self.work = Work(self.clock)
        self.slots = Slots(self.clock.monotonic, start=slots, most=most or slots, threads=share)
        self.threads = PooledThreads(threads)
        self._subscriptions: dict[str, EventSubscription] = {}
        lock = threading.Lock()
        rows = MemoryResources()
        store = TableHealth(rows, self.clock.monotonic)
        records = ClockRecords(
            state=rows, monotonic=self.clock.monotonic, begin=lambda work: work()
        )
        self.gates = Gates(
            health=SharedHealth(store, self.clock, lock, Counted(), records),
            slots=self.slots,
            threads=self.threads,
            push=self.work,
            clock=self.clock,
            monotonic=self.clock.monotonic,
            lock=lock,
        )

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(timedelta(seconds=seconds))

    def subscription(self, name: str = "crm") -> EventSubscription:
        """Return a subscription, the same each time, as the cache does."""
        return self._subscriptions.setdefault(name, a_subscription(name=name))

    def gate(self, name: str = "crm") -> Gate:
        return self.gates.of(self.subscription(name))

    def visit(self, *events: int, name: str = "crm", rules: DeliveryTerms | None = None) -> Visit:
        """Return a visit with deliveries of these positions."""
        deliveries = [a_delivery(position) for position in events]
        now = self.gates.monotonic()
        part = Part(
            message=a_message(deliveries, subscription=name),
            subscription=self.subscription(name),
            terms=rules or terms(),
            to_push=tuple(Loaded(each, each.text or "") for each in deliveries),
            ended=(),
            lost=(),
        )
        return Visit(
            part=part,
            health=self.gates.of(part.subscription).health,
            inbox=self.threads.inbox(),
            late=cast("LateAnswers", None),
            jitter=0.0,
            since=now,
            stop_at=now + 60,
        )

    def enter(self, visit: Visit) -> Visit:
        self.gates.enter(self.gates.of(visit.part.subscription), visit)
        return visit

    def entered(self, *events: int, name: str = "crm", rules: DeliveryTerms | None = None) -> Visit:
        """Return a visit with these deliveries that is at its gate."""
        return self.enter(self.visit(*events, name=name, rules=rules))

    def recheck(self, visit: Visit) -> bool:
        return self.gates.recheck(self.gates.of(visit.part.subscription), visit)

    def leave(self, visit: Visit) -> None:
        self.gates.leave(self.gates.of(visit.part.subscription), visit)

    def answered(self, visit: Visit) -> dict[int, Result]:
        """Wait until all of a visit is answered, and end it; return what came of each delivery."""
        while visit.open:
            assert visit.inbox.wait(PATIENCE) == [visit]
        self.leave(visit)
        return answers_of(visit)

    def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until a thread has come so far."""
        give_up_at = time.monotonic() + PATIENCE
        while not is_so():
            assert time.monotonic() < give_up_at
            time.sleep(0.001)

    def end(self) -> None:
        """Wait for all threads; no slot is taken, and nobody waits or is in flight."""
        self.work.let_go()
        self.threads._pool.shutdown()
        assert self.slots._used == 0
        assert not self.slots._waiting
        assert not self.slots._active
        assert all(gate.is_idle for gate in self.gates._known.values())


def answers_of(visit: Visit) -> dict[int, Result]:
    """Return what came of each delivery that is answered, which each is once."""
    found = [
        (loaded.delivery.position, answer.result)
        for answer in visit.answers
        for loaded in answer.batch
    ]
    assert len(dict(found)) == len(found)
    return dict(found)


def delivered(answers: dict[int, Result]) -> list[int]:
    """Return which deliveries succeeded, in order of their positions."""
    return sorted(
        number
        for number, result in answers.items()
        if isinstance(result, Attempted) and result.succeeded
    )


def turned_away(answers: dict[int, Result]) -> dict[int, str]:
    """Return which deliveries were not sent, and why."""
    return {number: result.why for number, result in answers.items() if isinstance(result, NotNow)}


@contextmanager
def a_house(**choices: Any) -> Iterator[House]:
    """Give a house; at its end everything must be released."""
    house = House(**choices)
    try:
        yield house
    finally:
        house.work.let_go()
    house.end()


def all_of(found: Iterable[tuple[int, ...]]) -> list[int]:
    return sorted(number for batch in found for number in batch)
