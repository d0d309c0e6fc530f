"""Makes the load that benchmarks publish, the sink that receives it, and the host's settings."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import requests

from bench.publisher import Load, Published
from devhost.azurite import Azurite
from testbed.host_settings import host_settings

_ROOT = Path(__file__).parents[1]
_SECONDS = 600  # for publishing a case: what hangs must end


@dataclass(frozen=True, slots=True)
class Case:
    """
    One load; *rate* is events per second in all, ``None`` for as fast as possible.

    *batching* is the most events that a subscription gets in a request, 0 for no output batching.
    """

    name: str
    events: int
    batch: int
    publishers: int
    subscriptions: int
    rate: float | None = None
    batching: int = 0


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


def publish(url: str, key: str, case: Case, *, seconds: float | None = None) -> Published:
    """
    Publish the case's events; return when all are accepted. After *seconds* no request begins.

    Raises:
        RuntimeError: a request was refused, or its connection closed.
    """
    load = Load(
        url=url,
        key=key,
        events=case.events,
        batch=case.batch,
        publishers=case.publishers,
        rate=case.rate,
        seconds=seconds,
    )
    done = subprocess.run(
        [sys.executable, "-m", "bench.publisher"],
        cwd=_ROOT,
        input=json.dumps(asdict(load)),
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
    )
    if done.returncode:
        raise RuntimeError(f"publishing failed: {done.stderr.strip().splitlines()[-1]}")
    return Published(**json.loads(done.stdout))


def settings(azurite: Azurite) -> dict[str, str]:
    """Return the host's settings: a local host's polling, the timer schedules of Azure."""
    return host_settings(
        azurite,
        AzureFunctionsJobHost__extensions__queues__maxPollingInterval="00:00:00.100",
        PUSHGRID_WAKE_SCHEDULE="0 * * * * *",
        PUSHGRID_DEADLETTER_SCHEDULE="0 */5 * * * *",
    )


def progress(text: str) -> None:
    """Print progress to stderr, so that stdout stays for results."""
    print(f"… {text}", file=sys.stderr, flush=True)
