"""Measures one case on one system."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, replace

from bench.load import Case, Sink, publish, running_sink
from bench.peers.system import PublishTarget, System
from bench.report import memory, processor_seconds

SECONDS = 5.0  # of publishing, if a system keeps up
_AT_MOST = 1.6  # times these seconds all is delivered in, as far as the warm-up tells
_PACED = 2.0  # times these seconds a case takes that has a rate
_BURST = 1.0  # seconds of a warm-up, or as many deliveries as follow
_FEW = 1000
_REST = 1.0  # seconds in which nothing goes on
_PATIENCE = 120.0  # seconds for what is published to arrive


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a run gave; rates per second, times in ms."""

    delivered: float
    deliveries: int
    p50: float  # from publish to receipt
    p99: float  # from publish to receipt
    p999: float  # from publish to receipt
    ack: float  # a publish request's median
    lost: int  # events that did not arrive
    repeated: int  # events that arrived again
    cpu: float  # processor time of all servers for a delivery, ms
    memory: float  # of all servers after the load but a database, MB


def measure(system: System, case: Case) -> Figures:
    """Measure a case on a system that is started for it."""
    with running_sink() as sink, system.start(case, sink.url) as target:
        return load(target, case, sink, warm_up(target, case, sink), SECONDS)


def load(target: PublishTarget, case: Case, sink: Sink, rate: float, seconds: float) -> Figures:
    """Publish for some seconds to a system that delivers *rate* events a second."""
    if case.rate:
        return play(target, replace(case, events=_fill(case.rate * seconds * _PACED, case)), sink)
    events = _fill(rate / case.subscriptions * seconds * _AT_MOST, case)
    return play(target, replace(case, events=events), sink, seconds=seconds)


def warm_up(target: PublishTarget, case: Case, sink: Sink) -> float:
    """Publish two bursts; return how many events a second were delivered of the second one."""
    burst = replace(case, events=_fill(_FEW / case.subscriptions, case), rate=None)
    for _ in range(2):
        figures = play(target, burst, sink, seconds=_BURST)
        time.sleep(_REST)
    return figures.delivered


def _fill(events: float, case: Case) -> int:
    """Return a number of events that fills whole requests."""
    return max(1, round(events / case.batch)) * case.batch


def play(target: PublishTarget, case: Case, sink: Sink, *, seconds: float | None = None) -> Figures:
    """Publish a case and wait for its deliveries."""
    sink.stats(reset=True)
    before = processor_seconds(*target.processes, *target.database)
    published = publish(target.url, target.key, case, seconds=seconds)
    expected = published.events * case.subscriptions
    stats = sink.wait_for("distinct", expected, _PATIENCE)
    spent = processor_seconds(*target.processes, *target.database) - before
    return Figures(
        delivered=stats["distinct"] / (stats["last"] - published.began),
        deliveries=stats["distinct"],
        p50=(stats["p50"] or 0) * 1000,
        p99=(stats["p99"] or 0) * 1000,
        p999=(stats["p999"] or 0) * 1000,
        ack=statistics.median(published.acks) * 1000,
        lost=expected - stats["distinct"],
        repeated=stats["count"] - stats["distinct"],
        cpu=spent / max(1, stats["distinct"]) * 1000,
        memory=memory(*target.processes),
    )
