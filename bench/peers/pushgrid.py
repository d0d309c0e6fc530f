"""Runs Pushgrid: the local host on Azurite."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.load import Case, deployment, subscribed
from bench.peers.system import PublishTarget, System
from devhost.process import RunningHost

_AZURITE = Path(__file__).parents[2] / "node_modules/azurite/package.json"


def _versions() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "azurite": json.loads(_AZURITE.read_text())["version"],
    }


@contextmanager
def _start(case: Case, sink: str) -> Iterator[PublishTarget]:
    with deployment() as host:
        yield target_of(host, case, sink)


def target_of(host: RunningHost, case: Case, sink: str) -> PublishTarget:
    """Create a topic with the subscriptions of *case* to a sink's URL."""
    endpoints = [f"{sink}/hook/{number}" for number in range(case.subscriptions)]
    return PublishTarget(*subscribed(host, "orders", endpoints, batching=case.batching))


PUSHGRID = System(name="Pushgrid", needs=(), versions=_versions, start=_start)
