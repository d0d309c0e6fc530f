"""Runs Pushgrid: the local host on Azurite."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from bench.load import Case, running_app, running_sink, settings, subscribed
from bench.peers.measuring import SECONDS, Figures, play, warm_up
from bench.peers.system import PublishTarget, System
from devhost.azurite import running_azurite
from devhost.process import RunningHost
from testbed.storage_proxy import running_storage_proxy

_AZURITE = Path(__file__).parents[2] / "node_modules/azurite/package.json"
_DELETING = 0.5  # seconds in which the last messages are deleted


def _versions() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "azurite": json.loads(_AZURITE.read_text())["version"],
    }


@contextmanager
def _start(case: Case, sink: str) -> Iterator[PublishTarget]:
    with running_azurite() as azurite, running_app(settings(azurite)) as host:
        yield target_of(host, case, sink)


def target_of(host: RunningHost, case: Case, sink: str) -> PublishTarget:
    """Create a topic with the subscriptions of *case* to a sink's URL."""
    endpoints = [f"{sink}/hook/{number}" for number in range(case.subscriptions)]
    return PublishTarget(*subscribed(host, "orders", endpoints, batching=case.batching))


def count(case: Case) -> Figures:
    """Measure a case through a proxy that counts storage requests, those of polling included."""
    endless = replace(case, events=10**9)
    with (
        running_sink() as sink,
        running_azurite() as azurite,
        running_storage_proxy(azurite) as proxy,
        running_app(settings(proxy.azurite)) as host,
    ):
        target = target_of(host, case, sink.url)
        warm_up(target, case, sink)
        proxy.requests.clear()
        figures = play(target, endless, sink, seconds=SECONDS)
        time.sleep(_DELETING)
        counted = sum(proxy.requests.values())
    return replace(figures, operations=counted / max(1, figures.deliveries))


PUSHGRID = System(name="Pushgrid", needs=(), versions=_versions, start=_start, seconds=8.0)
