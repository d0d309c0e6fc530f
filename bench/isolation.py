"""
Measures how much failing endpoints delay the healthy ones of their topic.

Eight healthy subscriptions share a topic with a dead one, which refuses every connection, and a
slow one, which answers after 29 s. Each second a request publishes 20 events of 1 KB. Each pair of
runs, without and with the failing endpoints, has its own storage and hosts and is warmed up first.
Delays are from publish to receipt at the healthy endpoints.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass

from bench.load import Case, Sink, progress, publish, running_sink, settings
from devhost.azurite import running_azurite
from devhost.process import running_host
from testbed.arm import Arm

AT_MOST = 1.5  # times the 99th percentile without failing endpoints
HEALTHY = 8
BATCH = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Delays in ms; *bad* counts what the slow endpoint received meanwhile."""

    p50: float
    p99: float
    bad: int
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two runs in succession."""

    without: Run
    beside: Run

    @property
    def ratio(self) -> float:
        """The 99th percentile beside failing endpoints over the one without."""
        return self.beside.p99 / self.without.p99


def measure(seconds: int, *, bad: bool) -> Run:
    """Measure the healthy endpoints on a new host, with the failing ones or without."""
    with ExitStack() as stack:
        healthy, slow = (stack.enter_context(running_sink()) for _ in range(2))
        azurite = stack.enter_context(running_azurite())
        host = stack.enter_context(running_host(settings(azurite)))
        arm = Arm(host.url)
        arm.create_topic("shared")
        for number in range(HEALTHY):
            arm.create_subscription("shared", f"healthy-{number}", f"{healthy.url}/{number}")
        if bad:
            arm.create_subscription("shared", "slow", f"{slow.url}/slow")
            with running_sink() as dead:  # It answers the handshake only.
                arm.create_subscription("shared", "dead", f"{dead.url}/")
        time.sleep(1)
        url, key = f"{host.url}/topics/shared/api/events", arm.key("shared")
        publish(url, key, _case(1))
        _arrived(healthy, BATCH * HEALTHY)
        healthy.stats(reset=True)
        publish(url, key, _case(seconds))
        complete = _arrived(healthy, seconds * BATCH * HEALTHY)
        stats = healthy.stats()
        return Run(
            p50=stats["p50"] * 1000,
            p99=stats["p99"] * 1000,
            bad=slow.stats()["count"],
            complete=complete,
        )


def _case(seconds: int) -> Case:
    return Case("", seconds * BATCH, BATCH, publishers=2, subscriptions=HEALTHY, rate=BATCH)


def _arrived(sink: Sink, count: int) -> bool:
    """Wait for *count* pushes; return whether they came within a minute."""
    deadline = time.time() + 60
    while (there := sink.stats()["count"]) < count and time.time() < deadline:
        time.sleep(0.1)
    return bool(there >= count)


def run_pairs(count: int, seconds: int) -> list[Pair]:
    """Measure pairs of runs, one after the other."""
    pairs = []
    for number in range(1, count + 1):
        progress(f"pair {number} of {count}: without failing endpoints")
        without = measure(seconds, bad=False)
        progress(f"pair {number} of {count}: beside failing endpoints")
        pairs.append(Pair(without=without, beside=measure(seconds, bad=True)))
    return pairs


def table(pairs: list[Pair], median: float) -> str:
    """Return the result as text."""
    head = f"{'pair':<6}{'p50 ms':>8}{'p99 ms':>8}{'beside: p50':>13}{'p99 ms':>8}{'ratio':>7}"
    lines = [head, "-" * len(head)]
    for number, pair in enumerate(pairs, 1):
        complete = pair.without.complete and pair.beside.complete
        lines.append(
            f"{number:<6}{pair.without.p50:>8.0f}{pair.without.p99:>8.0f}"
            f"{pair.beside.p50:>13.0f}{pair.beside.p99:>8.0f}{pair.ratio:>7.2f}"
            + ("" if complete else "   INCOMPLETE")
        )
    lines += ["", f"The healthy endpoints' p99 is {median:.2f} times as long (limit: {AT_MOST})."]
    return "\n".join(lines)


def main(parser: argparse.ArgumentParser, arguments: list[str]) -> int:
    """Print the table; returns 1 above the limit or if an event was not received."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--seconds", type=int, default=60, help="length of each run (60)")
    parser.add_argument("--pairs", type=int, default=3, help="pairs of runs (3)")
    options = parser.parse_args(arguments)
    pairs = run_pairs(options.pairs, options.seconds)
    median = statistics.median(pair.ratio for pair in pairs)
    if options.json:
        found = [asdict(pair) | {"ratio": pair.ratio} for pair in pairs]
        print(json.dumps({"pairs": found, "median": median}, indent=2))
    else:
        print(table(pairs, median))
    complete = all(run.complete for pair in pairs for run in (pair.without, pair.beside))
    return 0 if complete and median <= AT_MOST else 1
