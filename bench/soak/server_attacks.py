"""Kills, stops and starves `pushgrid serve`, and takes database or disk away from it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from random import Random
from typing import Any

import apsw

from bench.soak.kills import (
    KILLS,
    LONGEST,
    REACHED_IN,
    SHORTEST,
    SIDES,
    brief_steps_at,
    pause_steps,
    restart_steps,
    steps_at,
)
from bench.soak.outages import SECONDS, Outage, during, few_descriptors, frozen
from bench.soak.server_deployment import ServerDeployment
from bench.soak.soak_deployment import (
    Attacked,
    SoakDeployment,
    Step,
    one_after_the_other,
    wait_until,
)
from bench.soak.sqlite_deployment import SqliteDeployment, SqliteStage, can_have_disk

#: What the traffic causes within seconds; see `attacked_server.kind_of`.
KINDS = (
    *("begin", "commit", "wal_checkpoint"),
    *(f"{what} {file}" for what in ("write", "sync") for file in ("database", "wal")),
    *(f"insert {table}" for table in ("messages", "message_payloads", "parts", "payloads")),
    *(f"delete {table}" for table in ("messages", "message_payloads", "parts")),
    *(f"update messages {column}" for column in ("run", "body", "counts", "due")),
    *(f"insert {table}" for table in ("attempts", "attempt_hours", "counts", "blobs", "documents")),
    *("delete documents", "update state value", "select"),
)
#: Those of the short form: of each thing that is stored, and none that takes long to come.
BRIEF = (
    *("begin", "insert messages", "insert payloads", "commit", "delete messages"),
    *("update messages run", "insert blobs", "sync wal", "wal_checkpoint"),
)
STAGE = SqliteStage()
#: More than the server wants to be free, which the ballast takes away.
SMALL_DISK = SqliteStage(disk="330m")
_LOW, _FULL = 120, 330  # MB of ballast: less is free than is wanted; nothing is
_MB = 1024 * 1024
_FROZEN = 35.0  # seconds: longer than it waits for an endpoint
_LOCKED = 8.0  # seconds: longer than it waits for a lock
_RESTARTS = 3


def kill_steps(chance: Random) -> list[Step[Any]]:
    """Return a step for each kind of statement, write and sync."""
    starts = [killed_at_start("wal_checkpoint", each) for each in SIDES]
    at_start = Step("kill -9: wal_checkpoint of a start", one_after_the_other(starts))
    found: list[Step[Any]] = [*steps_at(KINDS, chance), at_start, *pause_steps()]
    chance.shuffle(found)
    return found


def brief_kill_steps(chance: Random) -> list[Step[SoakDeployment]]:
    return brief_steps_at(BRIEF, chance)


def killed_at_start(kind: str, side: str) -> Callable[[SqliteDeployment], Attacked]:
    """Make an attack that kills the process, and the next one as it starts."""

    def attack(deployment: SqliteDeployment) -> Attacked:
        accepted = deployment.ledger.accepted
        with deployment.traffic.flowing():
            wait_until(lambda: bool(accepted), REACHED_IN)
            deployment.kill()
            deliveries = deployment.repeatable()
            deployment.server.begin_start()
            deployment.kill_at(kind, side, 1)
            is_reached = wait_until(lambda: deployment.process.poll() is not None, REACHED_IN)
            deployment.restart()
        return Attacked(int(is_reached), deliveries)

    return attack


def burst_steps(chance: Random) -> list[Step[SqliteDeployment]]:
    """Return a step that kills at short intervals, ready or not."""

    def attack(deployment: SqliteDeployment) -> Attacked:
        deliveries, accepted = 0, deployment.ledger.accepted
        with deployment.traffic.flowing():
            wait_until(lambda: bool(accepted), REACHED_IN)
            for _ in range(KILLS):
                time.sleep(chance.uniform(SHORTEST, LONGEST))
                deployment.kill()
                deliveries += deployment.repeatable()
                deployment.server.begin_start()
            deployment.server.wait_until_ready()
            time.sleep(SECONDS)
        return Attacked(KILLS, deliveries)

    return [Step("kill -9 at short intervals", attack)]


def restarts(chance: Random) -> list[Step[ServerDeployment]]:
    return restart_steps(chance, _RESTARTS)


def outage_steps(_: Random) -> list[Step[SqliteDeployment]]:
    """Return a step for each thing that is taken away."""
    return [
        Step("database locked", failing(locked, _LOCKED)),
        Step("syncs fail", failing(failing_syncs)),
        Step("syncs fail until it ends", ended_by_its_disk),
        Step("few descriptors", during(few_descriptors)),
    ]


def frozen_steps(_: Random) -> list[Step[SqliteDeployment]]:
    """Return a step that stops the process: what was under way may be taken for unanswered."""
    return [Step("server frozen", during(frozen, seconds=_FROZEN, may_repeat=True))]


def brief_outage_steps(_: Random) -> list[Step[SqliteDeployment]]:
    """Return one step with those that take no longer than it takes to see them."""
    attacks = [failing(locked, _LOCKED), failing(failing_syncs), ended_by_its_disk]
    return [Step("outages", one_after_the_other(attacks))]


def disk_steps(_: Random) -> list[Step[SqliteDeployment]]:
    """Return a step that fills the disk; none where a program can't have one of its own."""
    if not can_have_disk():
        return []
    attacks = [failing(low_disk, event="storage.full"), failing(full_disk, event="storage.full")]
    return [Step("disk full", one_after_the_other(attacks))]


def failing(
    outage: Outage[SqliteDeployment], seconds: float = SECONDS, event: str = "storage.failed"
) -> Callable[[SqliteDeployment], Attacked]:
    """Make an attack that counts only if the server has logged an *event* meanwhile."""
    attack = during(outage, seconds=seconds)

    def counted(deployment: SqliteDeployment) -> Attacked:
        before = deployment.logged[event]
        done = attack(deployment)
        return done if deployment.logged[event] > before else done._replace(runs=0)

    return counted


@contextmanager
def locked(deployment: SqliteDeployment) -> Iterator[None]:
    """Let another program write into the database, and take its time."""
    with closing(deployment.open(apsw.SQLITE_OPEN_READWRITE)) as other:
        other.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            other.execute("ROLLBACK")


@contextmanager
def failing_syncs(deployment: SqliteDeployment) -> Iterator[None]:
    """Let a sync fail now and then: the next is that of what makes it good."""
    for _ in range(5):
        deployment.server.say("fail", "sync wal", "1")
        time.sleep(0.5)
    yield
    deployment.calm()


def ended_by_its_disk(deployment: SqliteDeployment) -> Attacked:
    """Let all syncs fail: the server has to end, and another one starts."""
    process = deployment.process
    with deployment.traffic.flowing():
        time.sleep(SECONDS)
        deployment.server.say("fail", "sync wal", str(10**6))
        wait_until(lambda: process.poll() is not None, REACHED_IN)
        deliveries = deployment.repeatable()
        deployment.restart()
        time.sleep(SECONDS)
    return Attacked(int(process.returncode == 1), deliveries)


def ballast(size: int) -> Callable[[SqliteDeployment], Iterator[None]]:
    """Return an outage in which so many MB of the disk are somebody else's, or what there are."""

    def outage(deployment: SqliteDeployment) -> Iterator[None]:
        file = deployment.disk / "ballast"
        try:
            with file.open("wb", buffering=0) as filled, suppress(OSError):  # there is no more
                for _ in range(size):
                    filled.write(bytes(_MB))
            yield
        finally:
            file.unlink()

    return outage


low_disk, full_disk = contextmanager(ballast(_LOW)), contextmanager(ballast(_FULL))
