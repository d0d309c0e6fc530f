"""Puts messages that nothing can handle into all queues; each must become a record."""

from __future__ import annotations

import base64
import html
import json
import time
import zlib
from collections.abc import Iterator
from random import Random
from typing import Any

from bench.soak.azurite_deployment import AzuriteDeployment, Stage
from bench.soak.ledger import digest
from bench.soak.soak_deployment import Attacked, Step
from shared.delivery.messages.message import VERSION
from testbed.storage_proxy import StorageRequest

QUEUES = ("deliveries", "retries", "waiting", "deadletters", "deliveries-poison")
STAGE = Stage(settings={"AzureFunctionsJobHost__extensions__queues__maxDequeueCount": "3"})
_SECONDS = 5.0
_REQUIRED = ("pushgrid", "parts", "events", "origins", "packed")
_BOMB = base64.b64encode(zlib.compress(b'{"id":"1"}\n' * 1_500_000, 9)).decode()


def foreign(mark: str) -> Iterator[str]:
    """Yield texts that were never a message; *mark* makes each the only one of its kind."""
    yield from (mark, f"{{{mark}", f'"{mark}"', f"[{mark}]", f"-{mark}e999", "x" * 50_000 + mark)
    yield "[" * 20_000 + mark
    yield base64.b64encode(mark.encode()).decode()
    yield f"{mark}\u00ff\u2028"
    yield json.dumps({"pushgrid": VERSION, "kind": mark})
    yield json.dumps({"pushgrid": None, "kind": "delivery", "mark": mark})


def damaged(genuine: str, mark: str) -> Iterator[str]:
    """Yield a fan-out message without each of its members, cut off, and with damaged events."""
    wire: dict[str, Any] = json.loads(genuine) | {"mark": mark}
    for member in _REQUIRED:
        yield json.dumps({name: value for name, value in wire.items() if name != member})
        yield json.dumps(wire | {member: [mark]})
    yield json.dumps(wire)[:-1]
    yield json.dumps(wire | {"packed": wire["packed"][::-1]})
    yield json.dumps(wire | {"packed": _BOMB})


def steps(chance: Random) -> list[Step[AzuriteDeployment]]:
    """Return the only step."""

    def attack(deployment: AzuriteDeployment) -> Attacked:
        genuine: list[str] = []

        def at(request: StorageRequest) -> None:
            if request.kind == "queue put deliveries":
                text = request.body.partition(b"<MessageText>")[2].partition(b"</MessageText>")[0]
                genuine.append(html.unescape(text.decode()))

        deployment.storage.proxy.attack = at
        with deployment.traffic.flowing():
            while not genuine:
                time.sleep(0.1)
            for queue in QUEUES:
                mark = f"{queue} {chance.randrange(10**9)}"
                texts = [*foreign(mark), *damaged(genuine[0], mark)]
                deployment.ledger.promise(("poison", digest(text)) for text in texts)
                for text in texts:
                    deployment.storage.put(queue, text)
            time.sleep(_SECONDS)
        return Attacked(1)

    return [Step("poison in all queues", attack)]
