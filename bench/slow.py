"""
Measures how fast events reach endpoints that take long to answer, and the delay of a quick one.

A case publishes a burst of single events for endpoints that were never pushed to before, and then
the same burst again. The rate counts from the first request to the last answer.
"""

from __future__ import annotations

import argparse
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.load import Case, deployment, publish, running_sink, subscribed
from bench.report import Measure, PhaseResult, run

_PUBLISHERS = 16
_WARM = 200  # events for another endpoint: what is measured is no start of the app
_SMALL = {"seconds": 5.0}
_REST = 2.0  # seconds between the bursts


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """Events for endpoints that answer slowly."""

    endpoints: int
    takes: float  # seconds of an answer
    deliveries: int  # in all
    # The least rates a second, from a cold start and in the next burst; else all are answered.
    wanted: tuple[float, float] | None = None
    within: float = 240.0  # seconds; then nobody waits any more


BURSTS = {
    "20 endpoints of 1.0 s": Burst(endpoints=20, takes=1.0, deliveries=2000, wanted=(450, 1000)),
    "1 endpoint of 2.0 s": Burst(endpoints=1, takes=2.0, deliveries=600, wanted=(40, 85)),
    "5 endpoints of 0.9 s": Burst(endpoints=5, takes=0.9, deliveries=1000, wanted=(230, 600)),
    "1 endpoint of 0.5 s": Burst(endpoints=1, takes=0.5, deliveries=600, wanted=(160, 320)),
    "1 endpoint of 12 s": Burst(endpoints=1, takes=12.0, deliveries=64, within=60.0),
}


def burst(of: Burst, *, is_quick: bool) -> Iterator[PhaseResult]:
    """Measure a burst from a cold start and, if all of it was answered, the next one."""
    events = of.deliveries // of.endpoints // (5 if is_quick else 1)
    deliveries, within = events * of.endpoints, 30.0 if is_quick else of.within
    with running_sink() as sink, deployment() as host:
        warm = subscribed(host, "warm", [f"{sink.url}/warm"])
        topic = subscribed(host, "slow", [f"{sink.url}/{each}" for each in range(of.endpoints)])
        publish(*warm, Case(_WARM, 1, _PUBLISHERS, 1))
        sink.wait_for("answered", _WARM, within)
        sink.say(after=of.takes)
        for number, phase in enumerate(("cold start", "next burst")):
            time.sleep(_REST)
            sink.stats(reset=True)
            published = publish(*topic, Case(events, 1, _PUBLISHERS, of.endpoints))
            left = published.began + within - time.time()
            stats = sink.wait_for("answered", deliveries, left)
            answered = stats["answered"]
            took = stats["answered_at"] - published.began if answered == deliveries else within
            figures = {"delivered/s": answered / took, "answered": answered, "of": deliveries}
            wanted = {"delivered/s": of.wanted[number]} if of.wanted else {"answered": deliveries}
            yield PhaseResult(phase=phase, figures=figures | {"seconds": took}, wanted=wanted)
            if answered < deliveries:
                return


def paced(*, is_quick: bool) -> Iterator[PhaseResult]:
    """Measure the delay of 30 events a second for an endpoint that answers at once."""
    seconds = 5 if is_quick else 30
    case = Case(30 * seconds, 1, 4, 1, rate=30)
    with running_sink() as sink, deployment() as host:
        topic = subscribed(host, "paced", [f"{sink.url}/paced"])
        publish(*topic, Case(_WARM, 1, _PUBLISHERS, 1))
        sink.wait_for("answered", _WARM, 60)
        sink.stats(reset=True)
        publish(*topic, case)
        stats = sink.wait_for("answered", case.events, 60)
        figures = {f"{name} ms": stats[name] * 1000 for name in ("p50", "p99")}
        figures |= {"answered": stats["answered"], "of": case.events}
        wanted = {"p50 ms": 15, "p99 ms": 40, "answered": case.events}
        yield PhaseResult(figures=figures, wanted=wanted)


def small_server(*, is_quick: bool) -> Iterator[PhaseResult]:
    """Measure events that come at once for many subscriptions on one small server."""
    events, subscriptions, within = 24, 19, 20.0 if is_quick else 60.0
    command = [sys.executable, "-m", "bench.small_sink", str(events * subscriptions)]
    serving = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    with deployment() as host, serving as sink:
        assert sink.stdout  # noqa: S101 - it was asked for
        url = f"http://127.0.0.1:{int(sink.stdout.readline())}"
        topic = subscribed(host, "small", [f"{url}/{each}" for each in range(subscriptions)])
        published = publish(*topic, Case(events, events, 1, subscriptions))
        ready, _, _ = select.select([sink.stdout], [], [], within)
        took = float(sink.stdout.readline()) - published.began if ready else within
        sink.communicate()
        yield PhaseResult(figures={"of": events * subscriptions, "seconds": took}, wanted=_SMALL)


CASES: dict[str, Measure] = {name: partial(burst, each) for name, each in BURSTS.items()} | {
    "19 on a small server": small_server,
    "paced at 30/s": paced,
}


def main(parser: argparse.ArgumentParser, arguments: list[str]) -> int:
    """Print the table; returns 1 if a figure isn't as wanted, 2 if no case matches."""
    return run(parser, arguments, CASES)
