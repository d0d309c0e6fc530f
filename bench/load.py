"""Makes the load that benchmarks publish, the sink that receives it, and the host's settings."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import requests

from bench.publisher import Published, PublishLoad
from devhost.azurite import Azurite, running_azurite
from devhost.certificate_files import CertificateFiles
from devhost.process import RunningHost, running_host
from testbed.arm import Arm
from testbed.host_settings import host_settings

_ROOT = Path(__file__).parents[1]
_SECONDS = 600  # for publishing a case, beside what its rate takes: what hangs must end


@dataclass(frozen=True, slots=True)
class Case:
    """One load."""

    events: int
    batch: int
    publishers: int
    subscriptions: int
    rate: float | None = None  # events per second in all; ``None``: as fast as possible
    # The most events that a subscription gets in a request; 0: no output batching.
    batching: int = 0


class Serving(Protocol):
    """A running deployment."""

    url: str


@dataclass(frozen=True, slots=True)
class Sink:
    """A running sink."""

    url: str  # where it receives pushes
    trusts: str | None = None  # verifies it

    def stats(self, *, reset: bool = False) -> dict[str, Any]:
        return self._ask("stats?reset" if reset else "stats")

    def say(self, **answers: float) -> None:
        """Change what it answers: *status*, *after* so many seconds; or *drop*."""
        self._ask("answers?" + "&".join(f"{name}={value}" for name, value in answers.items()))

    def wait_for(self, name: str, count: int, seconds: float) -> dict[str, Any]:
        """Return the counts once that of *name* is *count*, at the latest after *seconds*."""
        give_up_at = time.monotonic() + seconds
        while (stats := self.stats())[name] < count and time.monotonic() < give_up_at:
            time.sleep(0.1)
        return stats

    def _ask(self, question: str) -> dict[str, Any]:
        return dict(requests.get(f"{self.url}/{question}", timeout=60, verify=self.trusts).json())


@contextmanager
def running_sink(certificate: CertificateFiles | None = None) -> Iterator[Sink]:
    """Run a sink as a process until the block ends: it ends when its input is closed."""
    command = [sys.executable, str(_ROOT / "bench" / "sink.py")]
    command += [str(certificate.server)] if certificate else []
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout  # noqa: S101 - it was asked for
        address = f"127.0.0.1:{int(process.stdout.readline())}"
        if certificate:
            yield Sink(f"https://{address}", str(certificate.authority))
        else:
            yield Sink(f"http://{address}")


def running_app(
    settings: Mapping[str, str], *, options: Sequence[str] = (), descriptors: int | None = None
) -> AbstractContextManager[RunningHost]:
    """
    Run the app of the checkout that APP names, with its own local host and Python; else this one.

    *options* are the local host's; *descriptors* limits what it may open.
    """
    app = Path(os.environ.get("APP") or _ROOT).resolve()
    python = sys.executable if app == _ROOT else str(app / ".venv" / "bin" / "python")
    ready = [f"ulimit -n {descriptors}"] if descriptors else []
    command = shlex.join((python, "-m", "devhost", "--end-with-stdin"))
    script = " && ".join((*ready, f"cd {shlex.quote(str(app))}", f'exec {command} "$@"'))
    return running_host(settings, options=options, root=app, program=("sh", "-c", script, "sh"))


@contextmanager
def deployment(
    changes: Mapping[str, str] | None = None, *, descriptors: int | None = None
) -> Iterator[RunningHost]:
    """
    Run the app on new storage until the block ends; nobody waits for what is on its way.

    *changes* are settings.
    """
    with (
        running_azurite() as azurite,
        running_app(settings(azurite) | dict(changes or {}), descriptors=descriptors) as host,
    ):
        try:
            yield host
        finally:
            host.kill()


def subscribed(
    host: Serving, topic: str, endpoints: Sequence[str], *, batching: int = 0
) -> tuple[str, str]:
    """Create a topic whose events all endpoints get; return where to publish, and the key."""
    arm = Arm(host.url)
    arm.create_topic(topic)
    webhook = {"maxEventsPerBatch": batching} if batching else {}

    def create(number: int, url: str) -> None:
        arm.create_subscription(topic, f"s{number:03}", url, webhook)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(create, range(len(endpoints)), endpoints))
    return f"{host.url}/topics/{topic}/api/events", arm.key(topic)


def publish(
    url: str,
    key: str,
    case: Case,
    *,
    seconds: float | None = None,
    others: Sequence[tuple[str, str]] = (),
) -> Published:
    """
    Publish the case's events; return when all are accepted. After *seconds* no request begins.

    *others* are more topics, URL and key, which get every next event in turn.

    Raises:
        RuntimeError: a request was refused, or its connection closed.
    """
    load = PublishLoad(
        targets=[(url, key), *others],
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
        timeout=_SECONDS + (case.events / case.rate if case.rate else 0),
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


def log_lines(lines: Iterable[str], event: str) -> list[dict[str, Any]]:
    """Return the log lines of one kind, of a host or of a server."""
    mark = f'"event":"{event}"'
    return [json.loads(line[line.index("{") :]) for line in list(lines) if mark in line]


def progress(text: str) -> None:
    """Print progress to stderr, so that stdout stays for results."""
    print(f"… {text}", file=sys.stderr, flush=True)
