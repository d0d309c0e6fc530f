"""Runs Pushgrid: the local host on Azurite."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.load import Case, settings
from bench.peers.system import System, Target
from devhost.azurite import Azurite, running_azurite
from devhost.process import running_host
from testbed.arm import Arm

_AZURITE = Path(__file__).parents[2] / "node_modules/azurite/package.json"
_TOPIC = "orders"


def _versions() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "azurite": json.loads(_AZURITE.read_text())["version"],
    }


@contextmanager
def _start(case: Case, sink: str) -> Iterator[Target]:
    with running_azurite() as azurite, subscribed(azurite, case, sink) as target:
        yield target


@contextmanager
def subscribed(azurite: Azurite, case: Case, sink: str) -> Iterator[Target]:
    """Run a host on *azurite*, with the subscriptions of *case* to *sink*."""
    batching = {"maxEventsPerBatch": case.batching} if case.batching else {}
    with ExitStack() as stack:
        host = stack.enter_context(running_host(settings(azurite)))
        arm = Arm(host.url)
        arm.create_topic(_TOPIC)
        for number in range(case.subscriptions):
            arm.create_subscription(_TOPIC, f"s{number:02}", f"{sink}/hook/{number}", batching)
        yield Target(f"{host.url}/topics/{_TOPIC}/api/events", arm.key(_TOPIC))


PUSHGRID = System(name="Pushgrid", needs=(), versions=_versions, start=_start, seconds=8.0)
