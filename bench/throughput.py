"""
How fast, how dear and how large: the real thing beside its floors, in one run.

``make bench`` prints one table. Everything runs on this machine: the host, Azurite, and a sink
that does nothing but count. The floors are measured in the same run: what Azurite does in a
second, and what one process can POST with ``requests`` on 16 keep-alive threads.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import string
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import requests

sys.path.insert(0, str(Path(__file__).parents[1]))

from cli.local.arm import Arm
from cli.local.host_settings import host_settings
from cli.local.storage_proxy import StorageProxy, running_storage_proxy
from devhost.azurite import Azurite, running_azurite
from devhost.process import RunningHost, running_host

_ROOT = Path(__file__).parents[1]
_THREADS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One row: *rate* is events a second in all, ``None`` for as fast as it goes."""

    name: str
    events: int
    batch: int
    publishers: int
    subscriptions: int
    rate: float | None = None


CASES = (
    Case(
        name="requests of 100, 1 subscription",
        events=6000,
        batch=100,
        publishers=4,
        subscriptions=1,
    ),
    Case(
        name="requests of 100, 10 subscriptions",
        events=1000,
        batch=100,
        publishers=4,
        subscriptions=10,
    ),
    Case(
        name="single events, 1 subscription", events=1500, batch=1, publishers=16, subscriptions=1
    ),
    Case(
        name="single events, 10 subscriptions", events=300, batch=1, publishers=16, subscriptions=10
    ),
    Case(name="paced at 30/s", events=600, batch=1, publishers=4, subscriptions=1, rate=30),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What was measured; rates are a second, delays milliseconds from publish to receipt."""

    case: str
    accepted: float
    delivered: float
    p50: float | None
    p99: float | None
    operations: float
    cpu: float
    memory: float
    complete: bool


class Sink:
    """The sink's process."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(_ROOT / "bench" / "sink.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout  # noqa: S101 - it was asked for
        self.url = f"http://127.0.0.1:{int(self.process.stdout.readline())}"

    def stats(self, *, reset: bool = False) -> dict[str, Any]:
        suffix = "?reset" if reset else ""
        return dict(requests.get(f"{self.url}/stats{suffix}", timeout=10).json())

    def close(self) -> None:
        assert self.process.stdin and self.process.stdout  # noqa: S101, PT018
        self.process.stdin.close()
        self.process.wait(5)
        self.process.stdout.close()


@contextmanager
def running_sink() -> Iterator[Sink]:
    """Run a sink until the block ends."""
    sink = Sink()
    try:
        yield sink
    finally:
        sink.close()


def event(filler: str) -> dict[str, Any]:
    """Return an event of about 1 KB that knows when it was made."""
    return {
        "id": str(uuid.uuid4()),
        "subject": "/orders/17",
        "eventType": "Shop.OrderPlaced",
        "eventTime": "2026-01-01T00:00:00Z",
        "dataVersion": "1.0",
        "data": {"sentAt": time.time(), "filler": filler},
    }


def fillers() -> list[str]:
    """Return texts that compress no better than real ones."""
    letters = string.ascii_letters + string.digits + " "
    chance = random.Random(7)  # noqa: S311 - the same texts at every run
    return ["".join(chance.choices(letters, k=800)) for _ in range(200)]


def raw_post_rate(sink: Sink, count: int = 4000) -> float:
    """Return POSTs a second of one process with 16 keep-alive threads and the same bodies."""
    texts = fillers()
    bodies = [json.dumps([event(text)], separators=(",", ":")).encode() for text in texts]
    local = threading.local()

    def post(number: int) -> None:
        if not hasattr(local, "session"):
            local.session = requests.Session()
        local.session.post(
            f"{sink.url}/raw",
            data=bodies[number % len(bodies)],
            headers={"Content-Type": "application/json"},
            timeout=10,
        )

    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(post, range(_THREADS)))
        began = time.perf_counter()
        list(pool.map(post, range(count)))
        return count / (time.perf_counter() - began)


def azurite_rates(azurite: Azurite, count: int = 400) -> dict[str, float]:
    """Return what Azurite does a second, through the SDK on 4 threads."""
    from azure.storage.queue import QueueClient

    queue = QueueClient.from_connection_string(azurite.connection_string, "floor")
    queue.create_queue()
    text = "x" * 1024
    with ThreadPoolExecutor(4) as pool:
        began = time.perf_counter()
        list(pool.map(lambda _: queue.send_message(text), range(count)))
        put = count / (time.perf_counter() - began)
        began = time.perf_counter()
        messages: list[Any] = []
        receives = 0
        while len(messages) < count:
            messages += list(queue.receive_messages(messages_per_page=32, max_messages=32))
            receives += 1
        get = receives / (time.perf_counter() - began)
        began = time.perf_counter()
        list(pool.map(queue.delete_message, messages))
        delete = count / (time.perf_counter() - began)
    queue.delete_queue()
    return {"put": put, "get of 32": get, "delete": delete}


def publish(url: str, key: str, case: Case, texts: list[str]) -> float:
    """Publish the case's events; return the seconds it took until all were accepted."""
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


def measure(case: Case, host: RunningHost, sink: Sink, proxy: StorageProxy | None) -> Row:
    """Run one case to its end."""
    arm = Arm(host.url)
    topic = f"t{uuid.uuid4().hex[:8]}"
    arm.create_topic(topic)
    for number in range(case.subscriptions):
        arm.create_subscription(topic, f"s{number:02}", f"{sink.url}/hook/{number}")
    time.sleep(1)
    sink.stats(reset=True)
    before = sum(proxy.requests.values()) if proxy else 0
    cpu_before = cpu_seconds(host.process.pid)
    began = time.time()
    publishing = publish(f"{host.url}/topics/{topic}/api/events", arm.key(topic), case, fillers())
    expected = case.events * case.subscriptions
    stats = sink.stats()
    deadline = time.time() + 180
    while stats["count"] < expected and time.time() < deadline:
        time.sleep(0.1)
        stats = sink.stats()
    operations = sum(proxy.requests.values()) - before if proxy else 0
    return Row(
        case=case.name,
        accepted=case.events / publishing,
        delivered=stats["count"] / (stats["last"] - began),
        p50=stats["p50"] * 1000 if stats["p50"] is not None else None,
        p99=stats["p99"] * 1000 if stats["p99"] is not None else None,
        operations=operations / expected,
        cpu=(cpu_seconds(host.process.pid) - cpu_before) / expected * 1000,
        memory=memory_mb(host.process.pid),
        complete=stats["distinct"] == case.events and stats["count"] >= expected,
    )


def memory_while_waiting(azurite: Azurite, sink: Sink) -> float:
    """Return the most memory (MB) that a host has while 10,000 events of 1 KB wait for retry."""
    case = Case(name="", events=10_000, batch=100, publishers=4, subscriptions=1)
    with running_host(settings(azurite)) as host:
        arm = Arm(host.url)
        arm.create_topic("waiting")
        arm.create_subscription("waiting", "busy", f"{sink.url}/busy")
        sink.stats(reset=True)
        url = f"{host.url}/topics/waiting/api/events"
        publish(url, arm.key("waiting"), case, fillers())
        while sink.stats()["count"] < case.events:
            time.sleep(0.2)
        time.sleep(5)
        return memory_mb(host.process.pid)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def memory_mb(pid: int) -> float:
    """Return the most memory that a process has had."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


def settings(azurite: Azurite) -> dict[str, str]:
    """Return the host's settings, its timers as often as on Azure."""
    return host_settings(
        azurite,
        PUSHGRID_WAKE_SCHEDULE="0 * * * * *",
        PUSHGRID_DEADLETTER_SCHEDULE="0 */5 * * * *",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A whole run: *floors* are a second, *waiting_mb* is the host's memory."""

    rows: list[Row]
    floors: dict[str, float]
    waiting_mb: float | None


def run_cases(cases: tuple[Case, ...]) -> Result:
    """Measure every case timed, and again through a proxy that counts storage requests."""
    waiting = None
    rows: list[Row] = []
    raw: list[float] = []
    with running_sink() as sink:
        with running_azurite() as azurite:
            floors = azurite_rates(azurite)
        for case in cases:
            # A storage and a host of its own: what one case leaves behind slows no other.
            progress(f"timing {case.name}")
            with running_azurite() as azurite, running_host(settings(azurite)) as host:
                row = measure(case, host, sink, None)
            raw.append(raw_post_rate(sink))
            progress(f"counting {case.name}")
            with (
                running_azurite() as azurite,
                running_storage_proxy(azurite) as proxy,
                running_host(settings(proxy.azurite)) as host,
            ):
                counted = measure(case, host, sink, proxy)
            rows.append(replace(row, operations=counted.operations))
        floors["raw POST"] = statistics.median(raw)
        if cases == CASES:
            progress("10,000 events waiting for retry")
            with running_azurite() as azurite:
                waiting = memory_while_waiting(azurite, sink)
    return Result(rows=rows, floors=floors, waiting_mb=waiting)


def progress(text: str) -> None:
    """Say what is going on, where a person looks and no program reads."""
    print(f"… {text}", file=sys.stderr, flush=True)


def table(result: Result) -> str:
    """Write the result for people."""
    floors = result.floors
    head = (
        f"{'case':<36}{'accepted/s':>11}{'delivered/s':>12}{'of raw':>8}{'p50 ms':>8}{'p99 ms':>8}"
    )
    head += f"{'ops/event':>11}{'CPU s/1000':>12}{'peak MB':>9}"
    lines = [head, "-" * len(head)]
    for row in result.rows:
        share = row.delivered / floors["raw POST"]
        p50, p99 = (f"{each:.0f}" if each is not None else "-" for each in (row.p50, row.p99))
        lines.append(
            f"{row.case:<36}{row.accepted:>11.0f}{row.delivered:>12.0f}{share:>8.2f}{p50:>8}{p99:>8}"
            f"{row.operations:>11.3f}{row.cpu:>12.2f}{row.memory:>9.0f}"
            + ("" if row.complete else "   INCOMPLETE")
        )
    lines.append("")
    lines.append("Floors, a second, in the same run:")
    lines += [f"  {name:<12}{rate:>8.0f}" for name, rate in floors.items()]
    if result.waiting_mb:
        lines += [
            "",
            f"Host while 10,000 events wait for retry: {result.waiting_mb:.0f} MB at most",
        ]
    lines.append("")
    lines.append("delivered/s counts pushes that arrived, from the first publish to the last")
    lines.append("receipt; ops/event are storage requests for one delivered event, polls included.")
    return "\n".join(lines)


def main() -> int:
    """Print the table; returns 1 if anything did not arrive."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().split("\n")[0])
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument("--case", help="only cases whose name contains this")
    options = parser.parse_args()
    cases = tuple(case for case in CASES if not options.case or options.case in case.name)
    result = run_cases(cases)
    print(json.dumps(asdict(result), indent=2) if options.json else table(result))
    return 0 if all(row.complete for row in result.rows) else 1


if __name__ == "__main__":
    sys.exit(main())
