"""Runs Pushgrid: the local host on Azurite."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from bench.load import Case, running_app, running_sink, settings
from bench.peers.measuring import SECONDS, Figures, play, warm_up
from bench.peers.system import System, Target
from devhost.azurite import Azurite, running_azurite
from testbed.arm import Arm
from testbed.storage_proxy import running_storage_proxy

_AZURITE = Path(__file__).parents[2] / "node_modules/azurite/package.json"
_TOPIC = "orders"
_DELETING = 0.5  # seconds in which the last messages are deleted


def _versions() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "azurite": json.loads(_AZURITE.read_text())["version"],
    }


@contextmanager
def _start(case: Case, sink: str) -> Iterator[Target]:
    with running_azurite() as azurite, _subscribed(azurite, case, sink) as target:
        yield target


def count(case: Case) -> Figures:
    """Measure a case through a proxy that counts storage requests, those of polling included."""
    endless = replace(case, events=10**9)
    with (
        running_sink() as sink,
        running_azurite() as azurite,
        running_storage_proxy(azurite) as proxy,
        _subscribed(proxy.azurite, case, sink.url) as target,
    ):
        warm_up(target, case, sink)
        proxy.requests.clear()
        figures = play(target, endless, sink, seconds=SECONDS)
        time.sleep(_DELETING)
        counted = sum(proxy.requests.values())
    return replace(figures, operations=counted / max(1, figures.deliveries))


@contextmanager
def _subscribed(azurite: Azurite, case: Case, sink: str) -> Iterator[Target]:
    """Run a host on *azurite*, with the subscriptions of *case* to *sink*."""
    batching = {"maxEventsPerBatch": case.batching} if case.batching else {}
    with ExitStack() as stack:
        host = stack.enter_context(running_app(settings(azurite)))
        arm = Arm(host.url)
        arm.create_topic(_TOPIC)
        for number in range(case.subscriptions):
            arm.create_subscription(_TOPIC, f"s{number:02}", f"{sink}/hook/{number}", batching)
        yield Target(f"{host.url}/topics/{_TOPIC}/api/events", arm.key(_TOPIC))


PUSHGRID = System(name="Pushgrid", needs=(), versions=_versions, start=_start, seconds=8.0)
