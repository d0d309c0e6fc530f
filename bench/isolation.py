"""
What bad endpoints cost the others: healthy ones beside them, and without them.

Eight healthy subscriptions, on one topic with one that is dead (refuses every connection) and one
that answers after 29 s. A request of 20 events of 1 KB a second. Each pair of runs, one without
the bad ones and one with them, has storage and hosts of its own; everything is warm before it is
measured. The delays are from publish to receipt, at the healthy ones.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass

from bench.load import Case, Sink, fillers, progress, publish, running_sink, settings
from devhost.azurite import running_azurite
from devhost.process import running_host
from testbed.arm import Arm

AT_MOST = 1.5  # times the 99th percentile without the bad ones
HEALTHY = 8
BATCH = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Delays in milliseconds; *bad* counts what the slow endpoint received meanwhile."""

    p50: float
    p99: float
    bad: int
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two runs right after each other."""

    without: Run
    beside: Run

    @property
    def ratio(self) -> float:
        """How many times longer the 99th percentile is beside the bad ones."""
        return self.beside.p99 / self.without.p99


def measure(seconds: int, *, bad: bool) -> Run:
    """Run the healthy ones on a host of their own, with the bad ones or without."""
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
            with running_sink() as dead:  # It lives for the handshake.
                arm.create_subscription("shared", "dead", f"{dead.url}/")
        time.sleep(1)
        url, key = f"{host.url}/topics/shared/api/events", arm.key("shared")
        publish(url, key, _case(1), fillers())
        _arrived(healthy, BATCH * HEALTHY)
        healthy.stats(reset=True)
        publish(url, key, _case(seconds), fillers())
        complete = _arrived(healthy, seconds * BATCH * HEALTHY)
        stats = healthy.stats()
        return Run(
            p50=stats["p50"] * 1000,
            p99=stats["p99"] * 1000,
            bad=slow.stats()["count"],
            complete=complete,
        )


def _case(seconds: int) -> Case:
    return Case(
        name="",
        events=seconds * BATCH,
        batch=BATCH,
        publishers=2,
        subscriptions=HEALTHY,
        rate=BATCH,
    )


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
        progress(f"pair {number} of {count}: without bad endpoints")
        without = measure(seconds, bad=False)
        progress(f"pair {number} of {count}: beside bad endpoints")
        pairs.append(Pair(without=without, beside=measure(seconds, bad=True)))
    return pairs


def table(pairs: list[Pair], median: float) -> str:
    """Write the result for people."""
    head = f"{'pair':<6}{'p50 ms':>8}{'p99 ms':>8}{'beside: p50':>13}{'p99 ms':>8}{'ratio':>7}"
    lines = [head, "-" * len(head)]
    for number, pair in enumerate(pairs, 1):
        complete = pair.without.complete and pair.beside.complete
        lines.append(
            f"{number:<6}{pair.without.p50:>8.0f}{pair.without.p99:>8.0f}"
            f"{pair.beside.p50:>13.0f}{pair.beside.p99:>8.0f}{pair.ratio:>7.2f}"
            + ("" if complete else "   INCOMPLETE")
        )
    lines += ["", f"The healthy ones' p99 is {median:.2f} times as long (at most {AT_MOST})."]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; returns 1 if the bad ones cost too much or anything did not arrive."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().split("\n")[0])
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument("--seconds", type=int, default=60, help="of each run")
    parser.add_argument("--pairs", type=int, default=3)
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


if __name__ == "__main__":
    sys.exit(main())
