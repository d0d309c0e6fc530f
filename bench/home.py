"""Measures `pushgrid serve`: idle, retries, what waits, slow syncs, half an hour, two servers."""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
import uuid
import zlib
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import requests

from bench import postgres_servers
from bench.disk import compiler, counted_syncs, sync_ms
from bench.load import Case, progress, publish, running_sink, subscribed
from bench.peers.cases import CASES as PEERS
from bench.peers.cases import SINGLE
from bench.peers.measuring import Figures, load, play, warm_up
from bench.peers.pushgrid import target_of
from bench.postgres import running_database
from bench.publisher import event, fillers
from bench.report import Measure, PhaseResult, memory, processor_seconds, run
from bench.serving import ServerProcess, running_server, serving
from bench.sink import percentiles
from shared.adapters.sql.postgres.connecting import SCHEMA
from shared.adapters.sql.sqlite.store import SqliteStore
from shared.adapters.sql.store import SqlStore
from shared.adapters.sql.traits import SQL
from shared.adapters.threads import SystemThreads
from shared.clock import SystemClock
from shared.delivery.delivery import Delivery, Origin
from shared.delivery.messages.message import MessagePart
from shared.delivery.messages.message_writer import encode_together
from shared.engine.ports import Queue, Table
from testbed.arm import ADMIN_KEY
from testbed.postgres import PostgresServer
from testbed.subscriber import Push, running_subscriber

_SETTLES = 15.0  # seconds until what follows a start or a load is over
_RETRIED_IN = 25.0  # seconds, at most: Event Grid's first delay is 10 s
_FAILS_OF = 4  # events one fails at first
_SLOW_SYNC = 10  # ms
_SHARE = 0.6  # of the highest load
_MESSAGES = 500  # that are stored in one transaction
_MILLION = 1_000_000
_POSTGRES = "PostgreSQL"
_PACED = next(each.case for each in PEERS if each.name == "paced at 30/s")


class _Place(NamedTuple):
    """Where servers keep their data: in a folder, or in a *database*."""

    database: PostgresServer | None = None

    @property
    def url(self) -> str:
        """The URL of the database; empty: there is none."""
        return self.database.url() if self.database else ""

    @property
    def processor_seconds(self) -> float:
        return processor_seconds(self.database.pid) if self.database else 0.0


@contextmanager
def _place(store: str) -> Iterator[_Place]:
    if store == "SQLite":
        yield _Place()
        return
    with running_database() as database:
        yield _Place(database)


# ── Idle ──


def idle(store: str = "SQLite", *, is_quick: bool) -> Iterator[PhaseResult]:
    """Measure a server that has delivered, and has nothing to do."""
    seconds = 20.0 if is_quick else 180.0
    with ExitStack() as stack:
        place = stack.enter_context(_place(store))
        can_count = compiler() and not place.url
        syncs = stack.enter_context(counted_syncs()) if can_count else None
        sink = stack.enter_context(running_sink())
        server = stack.enter_context(serving(syncs.environ if syncs else None, store=place.url))
        play(target_of(server, _PACED, sink.url), Case(60, 1, 1, 1, 30), sink)
        time.sleep(_SETTLES if is_quick else 4 * _SETTLES)
        cpu, count = server.processor_seconds, syncs.count if syncs else 0
        others = place.processor_seconds
        time.sleep(seconds)
        a_minute = 60 / seconds
        figures = {"CPU ms a minute": (server.processor_seconds - cpu) * 1000 * a_minute}
        if syncs:
            figures["syncs a minute"] = (syncs.count - count) * a_minute
        elif place.url:
            spent = (place.processor_seconds - others) * 1000 * a_minute
            figures["CPU ms a minute, database"] = spent
        else:
            progress("syncs are not counted: no C compiler is installed (cc)")
        figures["memory MB"] = memory(server.process.pid)
        wanted = {"CPU ms a minute": 100, "syncs a minute": 6, "memory MB": 80}
        if place.url:
            wanted = {"memory MB": 90}
        yield PhaseResult(
            figures=figures, wanted={name: wanted[name] for name in figures if name in wanted}
        )


# ── Retries ──


def retries(store: str = "SQLite", *, is_quick: bool) -> Iterator[PhaseResult]:
    """Measure how long after it is due the first retry of each event is pushed."""
    events = 200 if is_quick else 1200
    pushed: dict[str, list[float]] = defaultdict(list)

    def answer(push: Push) -> int:
        for each in push.events:
            pushed[each["id"]].append(push.at)
        # An endpoint that always fails is held, as one that is busy.
        fails = zlib.crc32(push.body) % _FAILS_OF == 0
        return 500 if fails and push.headers["aeg-delivery-count"] == "0" else 200

    with (
        _place(store) as place,
        running_subscriber(answer) as endpoint,
        serving(store=place.url) as server,
    ):
        url, key = subscribed(server, "orders", [endpoint.url])
        publish(url, key, Case(events, 1, 4, 1, 20))
        time.sleep(_RETRIED_IN)
        failed = server.logged("delivery.attempted")
    due = {
        each["event_id"]: datetime.fromisoformat(each["next_attempt_at"]).timestamp()
        for each in failed
        if each["attempt"] == 1
    }
    late = [(pushed[each][1] - at) * 1000 for each, at in due.items() if len(pushed[each]) > 1]
    if len(late) < max(1, len(due)):
        raise RuntimeError(f"{len(late)} of {len(due)} events were retried")
    found = percentiles(late)
    figures = {f"{name} late ms": found[name] or 0.0 for name in ("p50", "p99", "slowest")}
    yield PhaseResult(figures=figures, wanted={"p50 late ms": 20, "p99 late ms": 100})


# ── A million deliveries wait ──


def waiting(
    events_a_message: int, store: str = "SQLite", *, is_quick: bool
) -> Iterator[PhaseResult]:
    """Measure a server with nothing waiting, and the same with a million deliveries for later."""
    deliveries = 20_000 if is_quick else _MILLION
    with tempfile.TemporaryDirectory() as name, _place(store) as place, running_sink() as sink:
        folder = Path(name)
        with running_server(folder, store=place.url) as server:
            target = subscribed(server, "orders", [f"{sink.url}/hook"])
            subscribed(server, "others", [f"{sink.url}/others"])
        with running_server(folder, store=place.url) as server:
            before = _with_waiting(server, (f"{server.url}/topics/orders/api/events", target[1]))
            yield PhaseResult(phase="nothing waits", figures=before)
        with _opened(folder / "data", place) as opened:
            asyncio.run(_store(opened, deliveries, events_a_message))
        with running_server(folder, store=place.url) as server:
            found = _with_waiting(server, (f"{server.url}/topics/orders/api/events", target[1]))
        found["publish : nothing"] = found["publish p50 ms"] / before["publish p50 ms"]
        found["memory + MB"] = found["memory MB"] - before["memory MB"]
        wanted = {"start s": 5, "status s": 1, "publish : nothing": 1.3, "memory + MB": 30}
        yield PhaseResult(phase=f"{deliveries:,} wait", figures=found, wanted=wanted)


def _with_waiting(server: ServerProcess, target: tuple[str, str]) -> dict[str, float]:
    figures = {"start s": server.started_in}
    time.sleep(_SETTLES)  # the timers have run
    began = time.perf_counter()
    status = _status(server)
    figures["status s"] = time.perf_counter() - began
    figures["waiting"] = status["waiting"]["events"]
    acks = publish(*target, Case(300, 1, 1, 1, 30)).acks
    figures["publish p50 ms"] = statistics.median(acks) * 1000
    figures["memory MB"] = memory(server.process.pid)
    figures["CPU s"] = server.processor_seconds
    return figures


@contextmanager
def _opened(data: Path, place: _Place) -> Iterator[SqlStore]:
    """Open the store beside no server."""
    if place.database:
        with place.database.new_store(schema=SCHEMA, threads=SystemThreads()) as opened:
            yield opened
        return
    with closing(SqliteStore(data, clock=SystemClock(), threads=SystemThreads())) as opened:
        yield opened


async def _store(store: SqlStore, deliveries: int, events_a_message: int) -> None:
    """Store deliveries that are due in an hour or later, as retries."""
    clock = SystemClock()
    try:
        stored = store.documents.get(Table.EVENT_SUBSCRIPTIONS, "others", "s000")
        assert stored  # noqa: S101 - it was created
        texts, now = fillers(), clock.now()
        generation = str(stored.document["generation"])
        messages: list[str] = []
        for start in range(0, deliveries, events_a_message):
            origin = Origin(uuid.uuid4().hex, now, None)
            due = now + timedelta(hours=1, milliseconds=start)
            batch = tuple(
                Delivery(
                    origin=origin,
                    position=position,
                    text=event(texts[(start + position) % len(texts)]).decode(),
                    attempts=1,
                )
                for position in range(min(events_a_message, deliveries - start))
            )
            part = MessagePart(
                topic="others",
                subscription="s000",
                generation=generation,
                deliveries=batch,
                due=due,
            )
            messages += [text for _, text in encode_together([part], SQL.message_size)]
            if len(messages) >= _MESSAGES or start + events_a_message >= deliveries:
                await store.sender.put_all(Queue.RETRIES, messages, due - now)
                messages = []
    finally:
        await store.leases.close()


# ── Slow syncs ──


def slow_syncs(case: Case, *, is_quick: bool) -> Iterator[PhaseResult]:
    """Measure a load with the disk as it is, and with syncs that take 10 ms longer."""
    for slower in (0, _SLOW_SYNC):
        with (
            counted_syncs(slower) as syncs,
            running_sink() as sink,
            serving(syncs.environ) as server,
        ):
            target = target_of(server, case, sink.url, server.process.pid)
            rate = warm_up(target, case, sink)
            before = syncs.count
            figures = load(target, case, sink, rate, 1.0 if is_quick else 5.0)
            if figures.lost:
                raise RuntimeError(f"{figures.lost} deliveries did not arrive")
            yield PhaseResult(
                phase=f"syncs + {slower} ms",
                figures={
                    "delivered/s": figures.delivered,
                    "p50 ms": figures.p50,
                    "p99 ms": figures.p99,
                    "CPU ms": figures.cpu,
                    "deliveries a sync": figures.deliveries / (syncs.count - before),
                },
            )


# ── Half an hour ──


def half_an_hour(*, is_quick: bool) -> Iterator[PhaseResult]:
    """Measure the highest load, then a share of it for long, by minutes."""
    minutes, seconds = (2, 10.0) if is_quick else (30, 60.0)
    with running_sink() as sink, serving() as server:
        target = target_of(server, SINGLE, sink.url, server.process.pid)
        highest = load(target, SINGLE, sink, warm_up(target, SINGLE, sink), 10.0)
        rate = highest.delivered * _SHARE
        yield PhaseResult(
            phase="highest", figures={"delivered/s": highest.delivered, "disk sync ms": sync_ms()}
        )
        written, before = server.bytes_written, _measures(server)
        case, found = Case(round(rate * seconds), 1, 16, 1, rate), list[Figures]()
        for _ in range(minutes):
            found.append(play(target, case, sink))
        after, deliveries = _measures(server), sum(each.deliveries for each in found)
        slowest = [each.p999 for each in found]
        yield PhaseResult(
            phase=f"{_SHARE:.0%} of it, {minutes} times {seconds:g} s",
            figures={
                "delivered/s": statistics.median(each.delivered for each in found),
                "p50 ms": statistics.median(each.p50 for each in found),
                "p99 ms": statistics.median(each.p99 for each in found),
                "p99.9 ms": statistics.median(slowest),
                "p99.9 ms of the worst": max(slowest),
                "CPU ms": statistics.median(each.cpu for each in found),
                "bytes written an event": (server.bytes_written - written) / deliveries,
                "checkpoints": after["checkpoints_total"] - before["checkpoints_total"],
                "WAL MB": server.wal_bytes / 1e6,
                "database MB": after["bytes"] / 1e6,
                "memory MB": found[-1].memory,
                "lost": sum(each.lost for each in found),
            },
            wanted={"lost": 0},
        )


def _measures(server: ServerProcess) -> dict[str, float]:
    return dict(_status(server)["store"])


def _status(server: ServerProcess) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
    answer = requests.get(f"{server.url}/status/topics", headers=headers, timeout=600)
    answer.raise_for_status()
    return dict(answer.json())


CASES: dict[str, Measure] = {
    "idle": idle,
    "retries": retries,
    "a million wait, 64 a message": partial(waiting, 64),
    "a million wait, 1 a message": partial(waiting, 1),
    "slow syncs, single events": partial(slow_syncs, SINGLE),
    "slow syncs, paced at 30/s": partial(slow_syncs, _PACED),
    "half an hour": half_an_hour,
    "idle, PostgreSQL": partial(idle, _POSTGRES),
    "retries, PostgreSQL": partial(retries, _POSTGRES),
    "a million wait, 64 a message, PostgreSQL": partial(waiting, 64, _POSTGRES),
    "a million wait, 1 a message, PostgreSQL": partial(waiting, 1, _POSTGRES),
    "two servers on one PostgreSQL": postgres_servers.two_servers,
    "limits over two servers": postgres_servers.limits,
    "horizon held": postgres_servers.horizon,
}


def main(parser: argparse.ArgumentParser, arguments: list[str]) -> int:
    """Print the table; returns 1 if a figure is not as wanted, 2 if no case matches."""
    if compiler() is None:
        for name in [each for each in CASES if each.startswith("slow syncs")]:
            progress(f"{name}: skipped, since no C compiler is installed (cc)")
            del CASES[name]
    return run(parser, arguments, CASES)
