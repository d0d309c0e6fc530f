"""
Runs a host under trouble for minutes, and judges ratios (`make soak OF=ratios`).

`slow`: thousands of events for an endpoint that takes 3 s, beside a healthy endpoint, whose delays
are compared with those it had alone. `outage`: an endpoint is down for a while; the most requests a
second after that are compared with those before.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Iterator

from bench.load import Case, Sink, deployment, log_lines, publish, running_sink, subscribed
from bench.report import Measure, PhaseResult, run
from shared.delivery.furthest import LONGEST_IN_LINE
from shared.delivery.pace import FIRST
from testbed.subscriber import running_subscriber

MANY, AT_ONCE = 5000, 500  # events for the slow endpoint: more messages than the host takes at once
TAKES = 3.0  # seconds that the slow endpoint takes
SCALE = "4"  # of the outage's waits
RATE = 20.0  # events a second in an outage
WINDOW = 5.0  # seconds of a peak
_PATIENCE = 600.0  # seconds for what is published to arrive


def slow(*, is_quick: bool) -> Iterator[PhaseResult]:
    """Publish to a healthy endpoint alone, then beside a slow one."""
    seconds = 15 if is_quick else 90
    with running_sink() as healthy, running_sink() as busy, deployment() as host:
        single = subscribed(host, "single", [f"{healthy.url}/hook"])
        many = subscribed(host, "many", [f"{busy.url}/hook"])
        busy.say(after=TAKES)
        publish(*single, Case(1, 1, 1, 1))
        alone = _delays(healthy, single, seconds // 3)
        yield PhaseResult(phase="alone", figures=alone)
        publish(*many, Case(MANY, AT_ONCE, 1, 1))
        began = time.monotonic()
        figures = _delays(healthy, single, seconds)
        stats, took = busy.stats(), time.monotonic() - began
        figures |= {f"{name} : alone": figures[name] / alone[name] for name in alone}
        figures |= {
            "delivered/s": stats["requests"] / took,
            "repeated": stats["count"] - stats["distinct"],
            "longest invocation s": max(
                (each["seconds"] for each in log_lines(host.lines, "delivery.run")), default=0.0
            ),
        }
    wanted = {"p50 ms : alone": 10.0, "p99 ms : alone": 30.0, "repeated": 0.0}
    wanted |= {"delivered/s": 0.7 * FIRST / TAKES}
    wanted |= {"longest invocation s": LONGEST_IN_LINE.total_seconds() + 3 * TAKES}
    yield PhaseResult(phase="beside", figures=figures, wanted=wanted)


def _delays(sink: Sink, topic: tuple[str, str], seconds: int) -> dict[str, float]:
    """Publish two events a second; return the delays of those that arrive from now on."""
    sink.stats(reset=True)
    publish(*topic, Case(2 * seconds, 1, 1, 1, rate=2))
    stats = sink.wait_for("distinct", 2 * seconds, _PATIENCE)
    return {f"{name} ms": stats[name] * 1000 for name in ("p50", "p99")}


def outage(*, is_quick: bool) -> Iterator[PhaseResult]:
    """Publish at one rate, half of the time to an endpoint that is down."""
    quarter = 5 if is_quick else 22
    is_down = threading.Event()
    with (
        running_subscriber(lambda _: 503 if is_down.is_set() else 200) as endpoint,
        deployment({"PUSHGRID_TIME_SCALE": SCALE}) as host,
    ):
        topic = subscribed(host, "orders", [endpoint.url])
        load = Case(int(RATE) * quarter, 4, 1, 1, RATE)
        publish(*topic, load)
        is_down.set()
        down_at = time.time()
        for _ in range(2):
            publish(*topic, load)
        is_down.clear()
        up_at = time.time()
        publish(*topic, load)

        def missing() -> int:
            taken = [push for push in list(endpoint.pushes) if not down_at <= push.at < up_at]
            return 4 * load.events - len({push.events[0]["id"] for push in taken})

        endpoint.wait_for(lambda _: not missing(), _PATIENCE)
    times = sorted(push.at for push in endpoint.pushes)
    before = sum(each < down_at for each in times) / quarter
    after = [each for each in times if each >= up_at]
    peak = max(sum(first <= each < first + WINDOW for each in after) for first in after) / WINDOW
    figures = {"before/s": before, "peak/s": peak, "peak : before": peak / before}
    figures |= {"last after s": after[-1] - up_at, "missing": missing()}
    yield PhaseResult(figures=figures, wanted={"peak : before": 3, "missing": 0})


CASES: dict[str, Measure] = {"slow": slow, "outage": outage}


def main(parser: argparse.ArgumentParser, arguments: list[str]) -> int:
    """Print the table; returns 1 if a figure isn't as wanted, 2 if no case matches."""
    return run(parser, arguments, CASES)
