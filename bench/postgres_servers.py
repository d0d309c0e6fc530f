"""Measures servers on one PostgreSQL: two of them, their limits, and a horizon that is held."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from bench.load import Case, Sink, publish, running_sink
from bench.peers.cases import SINGLE
from bench.peers.measuring import play, warm_up
from bench.peers.pushgrid import target_of
from bench.peers.system import PublishTarget
from bench.postgres import (
    SHARED_BUFFERS,
    claims,
    count_claims,
    dead_rows,
    running_database,
)
from bench.report import PhaseResult, processor_seconds
from bench.serving import ServerProcess, serving
from testbed.arm import Arm
from testbed.postgres import PostgresServer
from testbed.subscriber import Push, running_subscriber

_AT_ONCE, _A_SECOND = 10, 20
_TOOK = 0.2  # seconds that the limited endpoint takes
#: Of a second: what servers send at its ends is on its way for different times.
_ALMOST_A_SECOND = 0.95
_RATE = 800  # events a second while the horizon is held
_FAILING = 20  # of so many events one fails at first, so that messages are claimed
_PATIENCE = 120.0
_SETTLES = 5.0
_RETRIED_IN = 15.0  # seconds: nothing of before comes again


@contextmanager
def _two_servers() -> Iterator[tuple[PostgresServer, ServerProcess, ServerProcess]]:
    with (
        running_database() as database,
        serving(store=database.url()) as one,
        serving(store=database.url()) as two,
    ):
        yield database, one, two


# ── Two servers ──


def two_servers(*, is_quick: bool) -> Iterator[PhaseResult]:
    """Measure single events to one endpoint by one server, then by two on the same database."""
    seconds = 1.0 if is_quick else 5.0
    with ExitStack() as stack:
        database, one, two = stack.enter_context(_two_servers())
        sink = stack.enter_context(running_sink())
        url, key, *_ = target = target_of(one, SINGLE, sink.url)
        rate = warm_up(target, SINGLE, sink)
        both = [url, url.replace(one.url, two.url)]
        processes = [each.process.pid for each in (one, two)]
        for urls in (both[:1], both):
            targets = [PublishTarget(each, key, processes, [database.pid]) for each in urls]
            yield _at_once(targets, round(rate * 2 * seconds), sink, seconds)


def _at_once(
    targets: Sequence[PublishTarget], events: int, sink: Sink, seconds: float
) -> PhaseResult:
    """Publish to several servers at the same time."""
    sink.stats(reset=True)
    pids = (*targets[0].processes, *targets[0].database)
    spent = processor_seconds(*pids)
    case = Case(events, 1, 16, 1)
    with ThreadPoolExecutor(len(targets)) as pool:
        done = list(
            pool.map(lambda each: publish(each.url, each.key, case, seconds=seconds), targets)
        )
    expected = sum(each.events for each in done)
    stats = sink.wait_for("distinct", expected, _PATIENCE)
    spent = processor_seconds(*pids) - spent
    return PhaseResult(
        phase=f"{len(targets)} servers",
        figures={
            "delivered/s": stats["distinct"] / (stats["last"] - min(each.began for each in done)),
            "CPU ms": spent / max(1, stats["distinct"]) * 1000,
            "lost": expected - stats["distinct"],
            "shared_buffers MB": SHARED_BUFFERS,
        },
        wanted={"lost": 0},
    )


# ── Limits ──


@dataclass(slots=True)
class _Counting:
    """An endpoint that counts the requests that are there at a time, and when they came."""

    most: int = 0
    came: list[float] = field(default_factory=list)
    _now: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, _: Push) -> int:
        with self._lock:
            self.came.append(time.monotonic())
            self._now += 1
            self.most = max(self.most, self._now)
        time.sleep(_TOOK)
        with self._lock:
            self._now -= 1
        return 200

    def most_in(self, seconds: float) -> int:
        """Return how many came within so many seconds, at most."""
        most = first = 0
        for place, at in enumerate(self.came):
            while self.came[first] < at - seconds:
                first += 1
            most = max(most, place + 1 - first)
        return most


def limits(*, is_quick: bool) -> Iterator[PhaseResult]:
    """Count the requests of a limited subscription, to which two servers deliver."""
    seconds = 6 if is_quick else 60
    counting = _Counting()
    with _two_servers() as (_, one, two), running_subscriber(counting) as endpoint:
        arm = Arm(one.url)
        arm.create_topic("orders")
        limited = [_limit("webhook-max-requests", _AT_ONCE), _limit("webhook-max-rate", _A_SECOND)]
        webhook = {"deliveryAttributeMappings": limited}
        arm.create_subscription("orders", "limited", endpoint.url, webhook)
        key, case = arm.key("orders"), Case(15 * seconds, 1, 1, 1, 15)
        urls = [f"{each.url}/topics/orders/api/events" for each in (one, two)]
        with ThreadPoolExecutor(len(urls)) as pool:
            published = pool.map(lambda url: publish(url, key, case), urls)
            expected = sum(each.events for each in published)
        endpoint.wait_for(lambda pushes: len(pushes) >= expected, _PATIENCE)
    took = counting.came[-1] - counting.came[0]
    yield PhaseResult(
        figures={
            "at a time": counting.most,
            f"in {_ALMOST_A_SECOND} s": counting.most_in(_ALMOST_A_SECOND),
            "delivered/s": len(counting.came) / took,
            "lost": expected - len(counting.came),
        },
        wanted={"at a time": _AT_ONCE, f"in {_ALMOST_A_SECOND} s": _A_SECOND, "lost": 0},
    )


def _limit(name: str, value: int) -> dict[str, object]:
    properties = {"value": str(value), "isSecret": False}
    return {"name": name, "type": "Static", "properties": properties}


# ── A horizon that is held ──


def horizon(*, is_quick: bool) -> Iterator[PhaseResult]:
    """Measure a load before and while a foreign transaction keeps dead rows, and what is left."""
    rate, seconds, after = (100, 10.0, 2) if is_quick else (_RATE, 600.0, 300)
    case = Case(round(rate * seconds), 1, 16, 1, rate)
    with running_database() as database, serving(store=database.url()) as server:
        count_claims(database)
        with running_sink() as sink:
            target = target_of(server, case, sink.url, server.process.pid)
            sink.say(failing=_FAILING)
            warm = Case(round(rate * seconds / 10), 1, 16, 1, rate)
            before = play(target, warm, sink)
            time.sleep(_RETRIED_IN)
            yield PhaseResult(phase="before", figures={"delivered/s": before.delivered})
            with database.snapshot():
                had, read = claims(database)
                found = play(target, case, sink)
                time.sleep(_SETTLES)  # statistics come late
                claimed, rows = (
                    now - then for now, then in zip(claims(database), (had, read), strict=True)
                )
                dead = dead_rows(database)
            yield PhaseResult(
                phase=f"held for {seconds:g} s",
                figures={
                    "delivered/s": found.delivered,
                    "claimed": claimed,
                    "rows read a claimed message": rows / max(1, claimed),
                    "dead rows": dead,
                    "p99 ms": found.p99,
                    "lost": found.lost,
                },
                wanted={
                    "delivered/s": 0.9 * before.delivered,
                    "rows read a claimed message": 2,
                    "lost": 0,
                },
            )
            time.sleep(after)
            yield PhaseResult(
                phase=f"{after} s later",
                figures={"dead rows": dead_rows(database)},
                wanted={"dead rows": 3000},  # autovacuum leaves a thousand of each table
            )
