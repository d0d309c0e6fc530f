"""Runs BullMQ on Redis, which writes every job to disk before it is acknowledged."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.load import Case
from bench.peers.system import (
    IN_FLIGHT,
    Need,
    PublishTarget,
    System,
    free_port,
    output_of,
    program,
    running,
)

_FOLDER = Path(__file__).parent
_INSTALLED = _FOLDER / "node_modules" / "bullmq"
_DURABLE = ("--appendonly", "yes", "--appendfsync", "always", "--save", "")


def _versions() -> dict[str, str]:
    found = re.search(r"v=(\S+)", output_of([program("redis-server") or "", "--version"]))
    return {
        "node": output_of([program("node") or "", "--version"]).strip().removeprefix("v"),
        "redis": found[1] if found else "unknown",
        "bullmq": json.loads((_INSTALLED / "package.json").read_text())["version"],
    }


@contextmanager
def _start(case: Case, sink: str) -> Iterator[PublishTarget]:
    redis, port = free_port(), free_port()
    node = program("node") or ""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        server = [program("redis-server") or "", "--bind", "127.0.0.1", "--port", str(redis)]
        store = stack.enter_context(running([*server, "--dir", folder, *_DURABLE], port=redis))
        front = [node, "front.js", str(redis), str(port), str(case.subscriptions)]
        accepts = stack.enter_context(running(front, cwd=_FOLDER, port=port))
        worker = [node, "worker.js", str(redis), str(IN_FLIGHT), sink]
        delivers = stack.enter_context(running(worker, cwd=_FOLDER))
        url = f"http://127.0.0.1:{port}/events"
        yield PublishTarget(url, processes=(store, accepts, delivers))


BULLMQ = System(
    name="BullMQ",
    needs=(
        Need("redis-server", "apt install redis-server"),
        Need("node", "apt install nodejs"),
        Need(_INSTALLED, "make bench OF=peers"),
    ),
    versions=_versions,
    start=_start,
)
