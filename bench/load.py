"""Makes the load that benchmarks publish, the sink that receives it, and the host's settings."""

from __future__ import annotations

import json
import random
import string
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from devhost.azurite import Azurite
from testbed.host_settings import host_settings

_ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Case:
    """One load; *rate* is events per second in all, ``None`` for as fast as possible."""

    name: str
    events: int
    batch: int
    publishers: int
    subscriptions: int
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class Sink:
    """A running sink; *url* is where it receives pushes."""

    url: str

    def stats(self, *, reset: bool = False) -> dict[str, Any]:
        suffix = "?reset" if reset else ""
        return dict(requests.get(f"{self.url}/stats{suffix}", timeout=10).json())


@contextmanager
def running_sink() -> Iterator[Sink]:
    """Run a sink as a process until the block ends: it ends when its input is closed."""
    command = [sys.executable, str(_ROOT / "bench" / "sink.py")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout  # noqa: S101 - it was asked for
        yield Sink(f"http://127.0.0.1:{int(process.stdout.readline())}")


def event(filler: str) -> dict[str, Any]:
    """Return an event of about 1 KB that holds its time of publishing, for the sink."""
    return {
        "id": str(uuid.uuid4()),
        "subject": "/orders/17",
        "eventType": "Shop.OrderPlaced",
        "eventTime": "2026-01-01T00:00:00Z",
        "dataVersion": "1.0",
        "data": {"sentAt": time.time(), "filler": filler},
    }


def fillers() -> list[str]:
    """Return random texts of 800 characters, which compress as badly as real data."""
    letters = string.ascii_letters + string.digits + " "
    chance = random.Random(7)  # noqa: S311 - the same texts at every run
    return ["".join(chance.choices(letters, k=800)) for _ in range(200)]


def publish(url: str, key: str, case: Case, texts: list[str]) -> float:
    """Publish the case's events; return the seconds until all were accepted."""
    local = threading.local()
    numbers = range(case.events // case.batch)
    began = time.perf_counter()

    def send(number: int) -> None:
        if not hasattr(local, "session"):
            local.session = requests.Session()
        if case.rate:
            time.sleep(max(0.0, began + number * case.batch / case.rate - time.perf_counter()))
        events = [event(texts[(number + i) % len(texts)]) for i in range(case.batch)]
        response = local.session.post(
            url,
            data=json.dumps(events).encode(),
            headers={"aeg-sas-key": key, "Content-Type": "application/json"},
            timeout=60,
        )
        response.raise_for_status()

    with ThreadPoolExecutor(case.publishers) as pool:
        list(pool.map(send, numbers))
    return time.perf_counter() - began


def settings(azurite: Azurite) -> dict[str, str]:
    """Return the host's settings, with the timer schedules of Azure."""
    return host_settings(
        azurite,
        PUSHGRID_WAKE_SCHEDULE="0 * * * * *",
        PUSHGRID_DEADLETTER_SCHEDULE="0 */5 * * * *",
    )


def progress(text: str) -> None:
    """Print progress to stderr, so that stdout stays for results."""
    print(f"… {text}", file=sys.stderr, flush=True)
