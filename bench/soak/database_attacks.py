"""Attacks servers on one PostgreSQL, the database itself, and the way between them."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import psycopg

from bench.load import progress
from bench.soak.attacked_server import SUSPENDED
from bench.soak.kills import (
    KILLS,
    LONGEST,
    REACHED_IN,
    SHORTEST,
    SIDES,
    brief_steps_at,
    pause_steps,
    steps_at,
)
from bench.soak.outages import SECONDS, during, few_descriptors
from bench.soak.postgres_deployment import PostgresDeployment, PostgresStage
from bench.soak.soak_deployment import (
    Attacked,
    SoakDeployment,
    Step,
    one_after_the_other,
    wait_until,
)
from shared.adapters.sql.postgres.processes import DEAD_SECONDS, LEASE_SECONDS
from testbed.postgres import DATABASE, ROLE, pgbouncer

#: What the traffic causes within seconds; see `attacked_server.kind_of`.
KINDS = (
    *("begin", "commit", "select"),
    *(f"insert {table}" for table in ("messages", "message_payloads", "parts", "payloads")),
    *(f"delete {table}" for table in ("messages", "message_payloads", "parts")),
    *(f"update messages {column}" for column in ("run", "body", "counts", "due")),
    *(f"insert {table}" for table in ("attempts", "counts", "blobs", "documents")),
    *("delete documents", "update processes renewals"),
)
#: Those of the short form.
BRIEF = ("insert messages", "commit", "update messages run", "delete messages")
STAGE = PostgresStage()
#: With leases as they are.
LONG_STAGE = PostgresStage(leases=1.0)
PROXY_STAGE = PostgresStage(has_proxy=True)
POOLED_STAGE = PostgresStage(is_pooled=True)
CLOCKS_STAGE = PostgresStage(ahead=(3600.0, 0.0))
SYNCHRONOUS, ASYNCHRONOUS = (
    PostgresStage(standby=each) for each in ("synchronous", "asynchronous")
)
_HUNG = 20.0  # seconds: longer than an answer is waited for
_AWAY = 15.0  # seconds: longer than a commit is repeated
_UNREPLICATED = 2.0  # seconds that an asynchronous standby may be behind


def kill_steps(chance: Random) -> list[Step[Any]]:
    """Return a step for each kind of statement."""
    found: list[Step[Any]] = [*steps_at(KINDS, chance), *pause_steps()]
    chance.shuffle(found)
    return found


def brief_kill_steps(chance: Random) -> list[Step[SoakDeployment]]:
    return brief_steps_at(BRIEF, chance)


def clock_steps(chance: Random) -> list[Step[SoakDeployment]]:
    """Return a step that kills a server whose clock is an hour ahead."""
    (step,) = brief_steps_at(BRIEF, chance)
    return [step._replace(row="kill -9, clocks an hour apart")]


def pooled_steps(chance: Random) -> list[Step[Any]]:
    """Return steps behind PgBouncer; none where it is not installed."""
    if not pgbouncer():
        progress("pooled: skipped, since PgBouncer is not installed")
        return []
    (step,) = brief_steps_at(BRIEF, chance)
    return [
        step._replace(row="PgBouncer: kill -9"),
        Step("PgBouncer: PostgreSQL killed", killed_at_chance(chance, database_killed)),
        Step("PgBouncer: server stopped in a transaction", stopped_inside),
    ]


def database_steps(chance: Random) -> list[Step[PostgresDeployment]]:
    """Return steps that kill PostgreSQL, alone or with servers."""
    return [
        Step("PostgreSQL killed", killed_at_chance(chance, database_killed)),
        Step("PostgreSQL and a server killed", killed_at_chance(chance, both_killed)),
        Step("PostgreSQL and all servers killed", killed_at_chance(chance, all_killed)),
        Step("servers killed in turn", killed_at_chance(chance, servers_killed_in_turn)),
        Step("PostgreSQL away", during(away, seconds=_AWAY)),
    ]


def brief_database_steps(chance: Random) -> list[Step[PostgresDeployment]]:
    """Return one step with the first three."""
    kills = (database_killed, both_killed, all_killed)
    attacks = [killed_at_chance(chance, each, times=1) for each in kills]
    return [Step("PostgreSQL killed", one_after_the_other(attacks))]


def frozen_steps(_: Random) -> list[Step[PostgresDeployment]]:
    """Return steps that stop a server for longer than its lease."""
    return [
        Step("server frozen beyond its lease", frozen_beyond_its_lease),
        Step("server stopped in a transaction", stopped_inside),
        Step("lease over, as after a suspend", suspended),
    ]


def long_frozen_steps(_: Random) -> list[Step[PostgresDeployment]]:
    return [Step("server frozen for a minute", frozen_beyond_its_lease)]


def network_steps(chance: Random) -> list[Step[PostgresDeployment]]:
    """Return steps that cut and hang the connections of a server."""
    return [
        Step("connections cut", cut_at_chance(chance)),
        Step(
            "connections cut at a commit", one_after_the_other([cut_at_commits(s) for s in SIDES])
        ),
        Step("connections hang", during(hung, seconds=_HUNG)),
    ]


def brief_network_steps(_: Random) -> list[Step[PostgresDeployment]]:
    """Return one step, in which it is not known what is stored."""
    return [Step("connections cut at a commit", cut_at_commits("after"))]


def shortage_steps(_: Random) -> list[Step[PostgresDeployment]]:
    """Return steps that use up connections and descriptors."""
    return [
        Step("max_connections used up", during(used_up)),
        Step("few descriptors", during(few_descriptors)),
    ]


def failover_steps(_: Random) -> list[Step[PostgresDeployment]]:
    """Return steps that promote the standby of a primary that was killed."""
    return [
        Step("synchronous standby promoted", failed_over),
        Step("synchronous standby promoted, commits waited for it", failed_over_at_commit),
    ]


def asynchronous_steps(_: Random) -> list[Step[PostgresDeployment]]:
    """Return steps that may lose what the standby has not got: it is counted as unsaved."""
    return [
        Step("asynchronous standby promoted", failed_over),
        Step("asynchronous standby promoted, behind", failed_over_behind),
    ]


# ── Kills ──


def killed_at_chance(
    chance: Random, kill: Callable[[PostgresDeployment], object], times: int = KILLS
) -> Callable[[PostgresDeployment], Attacked]:
    """Make an attack that kills *times* under load, at intervals of chance."""

    def attack(deployment: PostgresDeployment) -> Attacked:
        accepted = deployment.ledger.accepted
        with deployment.traffic.flowing():
            for _ in range(times):
                before = len(accepted)
                wait_until(lambda before=before: len(accepted) > before, REACHED_IN)  # type: ignore[misc]
                time.sleep(chance.uniform(SHORTEST, LONGEST))
                kill(deployment)
            time.sleep(SECONDS)
        return Attacked(times)

    return attack


def database_killed(deployment: PostgresDeployment) -> None:
    deployment.database.stop(signal.SIGKILL)
    deployment.database.start()


def both_killed(deployment: PostgresDeployment) -> None:
    deployment.server.kill()
    database_killed(deployment)
    deployment.restart()


def all_killed(deployment: PostgresDeployment) -> None:
    deployment.kill()
    database_killed(deployment)
    deployment.restart()


def servers_killed_in_turn(deployment: PostgresDeployment) -> None:
    for each in deployment.servers:
        each.kill()
        each.start()


@contextmanager
def away(deployment: PostgresDeployment) -> Iterator[None]:
    """Stop PostgreSQL, and start it again."""
    deployment.database.stop()
    try:
        yield
    finally:
        deployment.database.start()


# ── Servers that stop ──


def frozen_beyond_its_lease(deployment: PostgresDeployment) -> Attacked:
    """Stop a server until another one has judged it dead, and let it go on."""
    judged = deployment.logged["process.judged_dead"]
    with deployment.traffic.flowing():
        time.sleep(SECONDS)
        os.kill(deployment.process.pid, signal.SIGSTOP)
        _wait_until_judged(deployment, judged)
        time.sleep(SECONDS)
        os.kill(deployment.process.pid, signal.SIGCONT)
        time.sleep(SECONDS)
    return Attacked(deployment.logged["process.judged_dead"] - judged)


def stopped_inside(deployment: PostgresDeployment) -> Attacked:
    """Let a server stop inside a transaction that has stored something."""
    judged = deployment.logged["process.judged_dead"]
    with deployment.traffic.flowing():
        time.sleep(SECONDS)
        deployment.server.say("stop", "insert messages", "after", "1")
        is_reached = wait_until(lambda: _is_stopped(deployment.process.pid), REACHED_IN)
        _wait_until_judged(deployment, judged)
        os.kill(deployment.process.pid, signal.SIGCONT)
        time.sleep(SECONDS)
    return Attacked(int(is_reached))


def suspended(deployment: PostgresDeployment) -> Attacked:
    """Let the clock of a server's lease jump beyond it: nothing is pushed before its renewal."""
    before = deployment.logged[SUSPENDED]
    with deployment.traffic.flowing():
        for _ in range(KILLS):
            time.sleep(SECONDS)
            deployment.server.say("suspend", str(1.5 * LEASE_SECONDS * deployment.leases))
        time.sleep(SECONDS)
    return Attacked(deployment.logged[SUSPENDED] - before)


def _wait_until_judged(deployment: PostgresDeployment, before: int) -> None:
    seconds = 2 * DEAD_SECONDS * deployment.leases + SECONDS
    wait_until(lambda: deployment.logged["process.judged_dead"] > before, seconds)


def _is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


# ── The way, and what there is of it ──

_PREPARED = re.compile(rb"P....(\w+)\0COMMIT\0", re.DOTALL)


def cut_at_chance(chance: Random) -> Callable[[PostgresDeployment], Attacked]:
    """Make an attack that resets all connections of a server now and then."""

    def cut(deployment: PostgresDeployment) -> None:
        if deployment.proxy:
            deployment.proxy.cut()

    return killed_at_chance(chance, cut, 2 * KILLS)


def cut_at_commits(side: str) -> Callable[[PostgresDeployment], Attacked]:
    """Make an attack that cuts a connection at some commits, before they are done or after."""

    def attack(deployment: PostgresDeployment) -> Attacked:
        done = 0
        readers: set[socket.socket] = set()
        commits: dict[socket.socket, re.Pattern[bytes]] = {}  # once it is prepared: by its name

        def cuts(client: socket.socket, data: bytes) -> str | None:
            nonlocal done
            if b"REPEATABLE" in data:
                readers.add(client)
            if client in readers:
                return None
            if prepared := _PREPARED.search(data):
                commits[client] = re.compile(rb"B....\0" + prepared[1] + rb"\0", re.DOTALL)
            known = commits.get(client)
            if b"\0COMMIT\0" not in data and not (known and known.search(data)):
                return None
            done += 1
            return side if done % 7 == 0 else None

        with deployment.traffic.flowing():
            time.sleep(SECONDS)
            if deployment.proxy:
                deployment.proxy.cuts = cuts
                deployment.proxy.cut()  # It has to see what is prepared.
            wait_until(lambda: done >= 7 * KILLS, REACHED_IN)
            deployment.calm()
            time.sleep(SECONDS)
        return Attacked(done // 7)

    return attack


@contextmanager
def hung(deployment: PostgresDeployment) -> Iterator[None]:
    with ExitStack() as stack:
        if deployment.proxy:
            stack.enter_context(deployment.proxy.hung())
        yield


@contextmanager
def used_up(deployment: PostgresDeployment) -> Iterator[None]:
    """Take all connections that there are, and then those of the servers."""
    mine = f"application_name = 'pushgrid' AND datname = '{DATABASE}'"
    ending = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {mine}"  # noqa: S608
    with ExitStack() as stack:

        def take() -> None:
            with suppress(psycopg.OperationalError):
                while True:
                    stack.enter_context(deployment.database.connected(ROLE))

        take()
        deployment.database.do(ending)
        take()
        yield


# ── Standbys ──


def failed_over(deployment: PostgresDeployment) -> Attacked:
    """Kill the primary under load, and promote its standby."""
    deployment.follow()
    with deployment.traffic.flowing():
        time.sleep(SECONDS)
        deployment.database.stop(signal.SIGKILL)
        if not deployment.is_synchronous:
            deployment.ledger.excuse(time.time() - _UNREPLICATED)
        deliveries = deployment.fail_over()
        time.sleep(SECONDS)
    return Attacked(1, 0 if deployment.is_synchronous else deliveries)


def failed_over_at_commit(deployment: PostgresDeployment) -> Attacked:
    """Kill the primary while commits wait for its standby, which has not got them."""
    deployment.follow()
    primary, standby = deployment.databases
    waiting = "SELECT COUNT(*) > 0 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    with deployment.traffic.flowing():
        time.sleep(SECONDS)
        standby.signal(signal.SIGSTOP)
        is_reached = wait_until(lambda: primary.do(waiting) == [(True,)], REACHED_IN)
        time.sleep(1)
        primary.stop(signal.SIGKILL)
        standby.signal(signal.SIGCONT)
        deployment.fail_over()
        time.sleep(SECONDS)
    return Attacked(int(is_reached))


def failed_over_behind(deployment: PostgresDeployment) -> Attacked:
    """Kill the primary when its standby has got nothing for seconds."""
    deployment.follow()
    _, standby = deployment.databases
    with deployment.traffic.flowing():
        time.sleep(SECONDS)
        standby.do("ALTER SYSTEM SET primary_conninfo = ''")
        standby.do("SELECT pg_reload_conf()")
        began = time.time()
        time.sleep(SECONDS)
        deployment.database.stop(signal.SIGKILL)
        deployment.ledger.excuse(began - _UNREPLICATED)
        deliveries = deployment.fail_over()
        time.sleep(SECONDS)
    return Attacked(1, deliveries)
