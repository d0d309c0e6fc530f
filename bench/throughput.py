"""
Measures throughput, delay, storage operations and memory against bounds of the same run.

Host, Azurite and a sink that only counts run on this machine. The bounds are Azurite's requests
per second, and the POSTs per second of one process with ``requests`` on 16 keep-alive threads.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import uuid
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bench.floors import azurite_rates, raw_post_rate
from bench.load import Case, Sink, progress, publish, running_app, running_sink, settings
from bench.report import no_case
from devhost.azurite import running_azurite
from devhost.process import RunningHost
from testbed.arm import Arm
from testbed.storage_proxy import StorageProxy, running_storage_proxy

CASES = (  # name, events, batch, publishers, subscriptions, rate
    Case("requests of 100, 1 subscription", 6000, 100, 4, 1),
    Case("requests of 100, 10 subscriptions", 1000, 100, 4, 10),
    Case("single events, 1 subscription", 1500, 1, 16, 1),
    Case("single events, 10 subscriptions", 300, 1, 16, 10),
    Case("paced at 30/s", 600, 1, 4, 1, 30),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Results of a case: rates per second; *p50* and *p99* in ms from publish to receipt."""

    case: str
    accepted: float
    delivered: float
    p50: float | None
    p99: float | None
    operations: float
    cpu: float
    memory: float
    complete: bool


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
    published = publish(f"{host.url}/topics/{topic}/api/events", arm.key(topic), case)
    expected = case.events * case.subscriptions
    stats = sink.stats()
    deadline = time.time() + 180
    while stats["distinct"] < expected and time.time() < deadline:
        time.sleep(0.1)
        stats = sink.stats()
    operations = sum(proxy.requests.values()) - before if proxy else 0
    return Row(
        case=case.name,
        accepted=case.events / published.seconds,
        delivered=stats["distinct"] / (stats["last"] - published.began),
        p50=stats["p50"] * 1000 if stats["p50"] is not None else None,
        p99=stats["p99"] * 1000 if stats["p99"] is not None else None,
        operations=operations / expected,
        cpu=(cpu_seconds(host.process.pid) - cpu_before) / expected * 1000,
        memory=memory_mb(host.process.pid),
        complete=stats["distinct"] == expected,
    )


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def memory_mb(pid: int) -> float:
    """Return the peak memory of a process in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Results of a run: *floors* per second."""

    rows: list[Row]
    floors: dict[str, float]


def run_cases(cases: tuple[Case, ...]) -> Result:
    """Measure each case twice: timed, and through a proxy that counts storage requests."""
    rows: list[Row] = []
    raw: list[float] = []
    with running_sink() as sink:
        with running_azurite() as azurite:
            floors = azurite_rates(azurite)
        for case in cases:
            # Each case has its own storage and host, so that none slows the next.
            progress(f"timing {case.name}")
            with running_azurite() as azurite, running_app(settings(azurite)) as host:
                row = measure(case, host, sink, None)
            raw.append(raw_post_rate(sink))
            progress(f"counting {case.name}")
            with (
                running_azurite() as azurite,
                running_storage_proxy(azurite) as proxy,
                running_app(settings(proxy.azurite)) as host,
            ):
                counted = measure(case, host, sink, proxy)
            rows.append(replace(row, operations=counted.operations))
        floors["raw POST"] = statistics.median(raw)
    return Result(rows=rows, floors=floors)


def table(result: Result) -> str:
    """Return the result as text."""
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
    lines.append("Bounds per second, measured in the same run:")
    lines += [f"  {name:<12}{rate:>8.0f}" for name, rate in floors.items()]
    lines.append("")
    lines.append("delivered/s counts received pushes from the first publish to the last receipt;")
    lines.append("ops/event counts storage requests per delivered event, polls included.")
    return "\n".join(lines)


def main(parser: argparse.ArgumentParser, arguments: list[str]) -> int:
    """Print the table; returns 1 if an event was not received, 2 if no case matches."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--case", help="only cases whose name contains this")
    options = parser.parse_args(arguments)
    cases = tuple(case for case in CASES if not options.case or options.case in case.name)
    if not cases:
        return no_case(options.case, (case.name for case in CASES))
    result = run_cases(cases)
    print(json.dumps(asdict(result), indent=2) if options.json else table(result))
    return 0 if all(row.complete for row in result.rows) else 1
