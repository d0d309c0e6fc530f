"""Runs Pushgrid: `pushgrid serve` on SQLite or PostgreSQL, and the local host on Azurite."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import apsw

from bench.load import Case, Serving, running_app, settings, subscribed
from bench.peers.system import PublishTarget, System
from bench.postgres import running_database
from bench.serving import serving
from devhost.azurite import running_azurite

_AZURITE = Path(__file__).parents[2] / "node_modules/azurite/package.json"


@contextmanager
def serve(case: Case, sink: str) -> Iterator[PublishTarget]:
    """Run `pushgrid serve`, subscribed for a case to a sink's URL."""
    with serving() as server:
        yield target_of(server, case, sink, server.process.pid)


@contextmanager
def serve_on_postgres(case: Case, sink: str) -> Iterator[PublishTarget]:
    """Run `pushgrid serve` on a PostgreSQL, subscribed for a case to a sink's URL."""
    with running_database() as database, serving(store=database.url()) as server:
        target = target_of(server, case, sink, server.process.pid)
        yield target._replace(database=[database.pid])


@contextmanager
def local_host(case: Case, sink: str, options: Sequence[str] = ()) -> Iterator[PublishTarget]:
    """Run the local host on Azurite with these *options*, subscribed for a case to a sink's URL."""
    with (
        running_azurite() as azurite,
        running_app(settings(azurite), options=options) as host,
    ):
        try:
            yield target_of(host, case, sink, host.process.pid, azurite.process.pid)
        finally:
            host.kill()  # nobody waits for what is on its way


def target_of(host: Serving, case: Case, sink: str, *processes: int) -> PublishTarget:
    """Create a topic with the subscriptions of *case* to a sink's URL."""
    endpoints = [f"{sink}/hook/{number}" for number in range(case.subscriptions)]
    topic = subscribed(host, "orders", endpoints, batching=case.batching)
    return PublishTarget(*topic, processes)


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), "sqlite": apsw.sqlite_lib_version()}


def _azurite() -> dict[str, str]:
    return {"azurite": json.loads(_AZURITE.read_text())["version"]}


PUSHGRID = System(name="Pushgrid", needs=(), versions=_versions, start=serve)
ON_AZURITE = System(name="Azurite", needs=(), versions=_azurite, start=local_host)
