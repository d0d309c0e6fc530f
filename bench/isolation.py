"""
Measures how much failing endpoints, and shortages of ours, delay the healthy ones of their topic.

Eight healthy subscriptions share a topic with others that are in trouble:

* failing: a dead one, which refuses every connection, and a slow one, which answers after 29 s
* silent: 120 whose names have servers that do not answer
* scarce: the host has few file descriptors, and 64 subscriptions have a slow endpoint

Each second a request publishes events of 1 KB, fewer the more subscriptions there are. A round has
two runs of each kind, each with a host and storage of its own, which are warmed up first: in one,
the others are in trouble, in the other they answer at once. Delays are from publish to receipt at
the healthy endpoints.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from threading import Event

from bench.load import Case, Sink, progress, publish, running_sink, settings
from devhost.azurite import running_azurite
from devhost.process import running_host
from testbed.arm import Arm
from testbed.name_server import running_name_server

AT_MOST = 1.5  # times the 99th percentile without trouble
HEALTHY = 8
SILENT = 120
CROWD = 64
DESCRIPTORS = 256  # what a laptop gives a process
TROUBLES = {"failing": 20, "silent": 4, "scarce": 8}  # events a second


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Delays in ms; *bad* counts what the slow endpoint received meanwhile."""

    p50: float
    p99: float
    bad: int
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A run in which the others answer at once, and one in which they are in trouble."""

    trouble: str
    without: Run
    beside: Run

    @property
    def ratio(self) -> float:
        """The 99th percentile beside trouble over the one without."""
        return self.beside.p99 / self.without.p99


def measure(seconds: int, trouble: str, *, is_real: bool) -> Run:
    """Measure the healthy endpoints on a new host; unless it *is_real*, the others are healthy."""
    with ExitStack() as stack:
        healthy, slow = (stack.enter_context(running_sink()) for _ in range(2))
        silent = Event()
        port = stack.enter_context(running_name_server(lambda _: silent.is_set()))
        azurite = stack.enter_context(running_azurite())
        names = {"PUSHGRID_NAME_SERVERS": f"127.0.0.1:{port}"}
        with few_descriptors(DESCRIPTORS) if trouble == "scarce" and is_real else nullcontext():
            host = stack.enter_context(running_host(settings(azurite) | names))
        arm = Arm(host.url)
        arm.create_topic("shared")
        for number in range(HEALTHY):
            arm.create_subscription("shared", f"healthy-{number}", f"{healthy.url}/{number}")
        bad = f"{slow.url}/slow" if is_real else f"{slow.url}/quick"
        if trouble == "failing":
            arm.create_subscription("shared", "slow", bad)
            with running_sink() as dead:  # It answers the handshake only.
                arm.create_subscription("shared", "dead", f"{dead.url}/" if is_real else bad)
        if trouble == "silent":
            for number in range(SILENT):
                url = f"{slow.url}/quick".replace("127.0.0.1", f"{number}.silent.test")
                arm.create_subscription("shared", f"silent-{number}", url)
            if is_real:
                silent.set()
        if trouble == "scarce":
            for number in range(CROWD):
                arm.create_subscription("shared", f"crowd-{number}", bad)
        time.sleep(1)
        url, key = f"{host.url}/topics/shared/api/events", arm.key("shared")
        rate = TROUBLES[trouble]
        publish(url, key, _case(1, rate))
        _arrived(healthy, rate * HEALTHY)
        healthy.stats(reset=True)
        publish(url, key, _case(seconds, rate))
        complete = _arrived(healthy, seconds * rate * HEALTHY)
        stats = healthy.stats()
        return Run(
            p50=stats["p50"] * 1000,
            p99=stats["p99"] * 1000,
            bad=slow.stats()["count"],
            complete=complete,
        )


@contextmanager
def few_descriptors(limit: int) -> Iterator[None]:
    """Let processes that are started in the block open so few file descriptors."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def _case(seconds: int, rate: int) -> Case:
    return Case("", seconds * rate, rate, publishers=2, subscriptions=HEALTHY, rate=rate)


def _arrived(sink: Sink, count: int) -> bool:
    """Wait for *count* pushes; return whether they came within a minute."""
    deadline = time.time() + 60
    while (there := sink.stats()["count"]) < count and time.time() < deadline:
        time.sleep(0.1)
    return bool(there >= count)


def run_rounds(count: int, seconds: int, troubles: Sequence[str]) -> list[Pair]:
    """Measure rounds, one after the other."""
    pairs = []
    for number in range(1, count + 1):
        for trouble in troubles:
            runs = []
            for is_real in (False, True):
                progress(f"round {number} of {count}: {trouble}{'' if is_real else ', control'}")
                runs.append(measure(seconds, trouble, is_real=is_real))
            pairs.append(Pair(trouble=trouble, without=runs[0], beside=runs[1]))
    return pairs


def medians(pairs: Sequence[Pair]) -> dict[str, float]:
    """Return the median ratio of each kind of trouble."""
    kinds = dict.fromkeys(pair.trouble for pair in pairs)
    return {
        kind: statistics.median(pair.ratio for pair in pairs if pair.trouble == kind)
        for kind in kinds
    }


def table(pairs: Sequence[Pair]) -> str:
    """Return the result as text."""
    head = f"{'trouble':<9}{'p50 ms':>8}{'p99 ms':>8}{'beside: p50':>13}{'p99 ms':>8}{'ratio':>7}"
    lines = [head, "-" * len(head)]
    for pair in pairs:
        complete = pair.without.complete and pair.beside.complete
        lines.append(
            f"{pair.trouble:<9}{pair.without.p50:>8.0f}{pair.without.p99:>8.0f}"
            f"{pair.beside.p50:>13.0f}{pair.beside.p99:>8.0f}{pair.ratio:>7.2f}"
            + ("" if complete else "   INCOMPLETE")
        )
    lines.append("")
    for kind, median in medians(pairs).items():
        lines.append(
            f"{kind}: the healthy endpoints' p99 is {median:.2f} times as long (limit: {AT_MOST})."
        )
    return "\n".join(lines)


def main(parser: argparse.ArgumentParser, arguments: list[str]) -> int:
    """Print the table; returns 1 above the limit or if an event was not received."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--seconds", type=int, default=60, help="length of each run (60)")
    parser.add_argument("--pairs", type=int, default=3, help="rounds (3)")
    parser.add_argument(
        "--beside", choices=TROUBLES, action="append", help="kind of trouble (all of them)"
    )
    options = parser.parse_args(arguments)
    pairs = run_rounds(options.pairs, options.seconds, options.beside or list(TROUBLES))
    if options.json:
        found = [asdict(pair) | {"ratio": pair.ratio} for pair in pairs]
        print(json.dumps({"pairs": found, "medians": medians(pairs)}, indent=2))
    else:
        print(table(pairs))
    complete = all(run.complete for pair in pairs for run in (pair.without, pair.beside))
    return 0 if complete and max(medians(pairs).values()) <= AT_MOST else 1
