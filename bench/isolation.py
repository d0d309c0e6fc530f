"""
Measures what endpoints in trouble cost the healthy ones, and a host that has much under way.

First the healthy subscriptions are measured in a control: alone, or beside the others while these
still answer at once; then beside the others in trouble, on the same host unless they share a topic
with them. Delays are from publish to the first attempt.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import requests

from bench.load import Case, Sink, deployment, publish, running_sink, subscribed
from bench.report import Measure, PhaseResult, run
from devhost.certificate_files import local_certificate
from testbed.arm import Arm
from testbed.name_server import FOUND, running_name_server

Phase = tuple[str, Mapping[str, float] | None]  # its name, and what the others answer

_COMPARED = ("p50", "p95", "p99")
_PATIENCE = 60.0  # seconds for what is published to arrive
_FIRST_ATTEMPTS = 120.0  # seconds for 10,000 of them
_SHARING = 8  # healthy subscriptions that share a topic with the others
_HEALTHY_RATE = 20.0  # events a second for the healthy one that has a topic of its own
_SMALL = {"p50": 20.0, "p95": 60.0}  # ms: no ratio is judged below
_RATIOS = {"p50": 1.3, "p95": 2.0}
_SHARED_RATIO = 1.2  # of p99, where the topic is shared
_SLOWEST = 1000.0  # ms, beside endpoints that hang
_HANGS = 60.0  # seconds: longer than any push waits
_ALONE: Phase = ("alone", None)
_AT_ONCE: Phase = ("all answer at once", {"status": 200, "after": 0})


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """What other endpoints do in each phase."""

    others: int  # their number
    rate: float  # events a second
    phases: tuple[Phase, ...]  # the first is the control; ``None``: they get no events
    # They have no topic in common; events are published one after the other.
    topic_each: bool = False
    is_shared: bool = False  # the healthy subscriptions have the others' topic as well
    are_silent: bool = False  # their names' servers don't answer once they are in trouble
    judges_slowest: bool = False
    descriptors: int | None = None  # of the host at most


def _slow_then_hanging(others: int) -> Disturbance:
    phases = (_ALONE, ("beside", {"after": 0.9}), ("beside, all hang", {"after": _HANGS}))
    return Disturbance(others=others, rate=180 / others, phases=phases)


def _hanging(others: int, rate: float, **more: Any) -> Disturbance:
    phases = (_ALONE, ("beside", {"after": 20.0}))
    return Disturbance(others=others, rate=rate, phases=phases, judges_slowest=True, **more)


def _sharing(others: int, rate: float, **more: Any) -> Disturbance:
    phases = (_AT_ONCE, ("beside", {"after": 29.0}))
    return Disturbance(others=others, rate=rate, phases=phases, is_shared=True, **more)


_FAILING: Phase = ("beside", {"status": 503})
TROUBLES = {
    "6 endpoints of 0.9 s, 180/s": _slow_then_hanging(6),
    "20 endpoints of 0.9 s, 180/s": _slow_then_hanging(20),
    "100 that answer 503, 500/s": Disturbance(others=100, rate=5, phases=(_ALONE, _FAILING)),
    "500 that answer 503, 500/s": Disturbance(others=500, rate=1, phases=(_AT_ONCE, _FAILING)),
    "6 that hang for 20 s, 240/s": _hanging(6, 40),
    "64 that hang, lone publishes": _hanging(64, 64, topic_each=True),
    "same topic: 1 that answers after 29 s": _sharing(1, 20),
    "same topic: 120 silent names": _sharing(120, 4, are_silent=True),
    "same topic: 64 that hang, 256 descriptors": _sharing(64, 8, descriptors=256),
}


def beside(trouble: Disturbance, *, is_quick: bool) -> Iterator[PhaseResult]:
    """Measure the healthy subscriptions in each phase."""
    control: dict[str, float] = {}
    # Who shares a topic with others is measured beside such as were never better.
    hosts = [[phase] for phase in trouble.phases] if trouble.is_shared else [trouble.phases]
    for phases in hosts:
        for phase, figures in _measured(trouble, phases, 5 if is_quick else 30):
            control = control or figures
            if figures is not control:
                ratios = {each: figures[f"{each} ms"] / control[f"{each} ms"] for each in _COMPARED}
                figures |= {f"{each} : control": value for each, value in ratios.items()}
            yield PhaseResult(
                phase=phase, figures=figures, wanted=limits(trouble, figures, control)
            )


def _measured(
    trouble: Disturbance, phases: Sequence[Phase], seconds: int
) -> Iterator[tuple[str, dict[str, float]]]:
    """Measure phases on one host; yield the name of each, and its figures."""
    with ExitStack() as stack:
        healthy, others = (stack.enter_context(running_sink()) for _ in range(2))
        are_silent = Event()
        port = stack.enter_context(
            running_name_server(lambda _: None if are_silent.is_set() else FOUND)
        )
        names = {"PUSHGRID_NAME_SERVERS": f"127.0.0.1:{port}"} if trouble.are_silent else {}
        host = stack.enter_context(deployment(names, descriptors=trouble.descriptors))
        ours = [f"{healthy.url}/{number}" for number in range(_SHARING if trouble.is_shared else 1)]
        theirs = [f"{others.url}/{number}" for number in range(trouble.others)]
        if trouble.are_silent:
            theirs = [
                url.replace("127.0.0.1", f"{each}.silent.test") for each, url in enumerate(theirs)
            ]
        target = subscribed(host, "healthy", ours + theirs if trouble.is_shared else ours)
        rate = trouble.rate if trouble.is_shared else _HEALTHY_RATE
        groups = [[each] for each in theirs] if trouble.topic_each else [theirs]
        groups = [] if trouble.is_shared else groups
        topics = [subscribed(host, f"others-{number}", each) for number, each in enumerate(groups)]
        others.say(**phases[0][1] or {})
        if trouble.are_silent and phases[0] != _AT_ONCE:
            are_silent.set()
            others.say(drop=1)  # a connection that is open needs no name
        publish(*target, _load(rate, 1, len(ours)))
        healthy.wait_for("distinct", int(rate) * len(ours), _PATIENCE)
        for phase, answers in phases:
            others.say(**answers or {})
            healthy.stats(reset=True)
            with ThreadPoolExecutor(1) as pool:
                crowd = topics if answers else []
                load = _load(trouble.rate, seconds, 0, 1 if trouble.topic_each else 4)
                busy = [pool.submit(publish, *each, load, others=crowd[1:]) for each in crowd[:1]]
                publish(*target, _load(rate, seconds, len(ours)))
            figures = _figures(healthy, int(rate * seconds) * len(ours))
            for each in map(Future.result, busy):
                figures["others/s"] = each.events / each.seconds * trouble.others / len(topics)
            yield phase, figures


def _load(rate: float, seconds: int, subscriptions: int, publishers: int = 2) -> Case:
    return Case(int(rate * seconds), 1, publishers, subscriptions, rate)


def _figures(healthy: Sink, deliveries: int) -> dict[str, float]:
    """Return delays in ms."""
    stats = healthy.wait_for("distinct", deliveries, _PATIENCE)
    if not stats["count"]:
        raise RuntimeError("the healthy ones got nothing")
    figures = {f"{name} ms": stats[name] * 1000 for name in (*_COMPARED, "slowest")}
    if missing := deliveries - stats["distinct"]:
        figures["missing"] = missing
    return figures


def limits(
    trouble: Disturbance, figures: Mapping[str, float], control: Mapping[str, float]
) -> dict[str, float]:
    """Return the most that the figures of a phase may be."""
    if figures is control:
        return {name: 0.0 for name in ("missing",) if name in figures}
    large = [name for name, small in _SMALL.items() if figures[f"{name} ms"] > small]
    ratios = dict.fromkeys(["p99"] if large else [], _SHARED_RATIO)
    if not trouble.is_shared:
        ratios = {name: _RATIOS[name] for name in large}
    wanted = {f"{name} : control": most for name, most in ratios.items()} | {"missing": 0.0}
    if trouble.judges_slowest:
        wanted["slowest ms"] = _SLOWEST
    return {name: most for name, most in wanted.items() if name in figures}


def deletion(*, is_quick: bool) -> Iterator[PhaseResult]:
    """Measure how long the deletion of a topic takes whose subscriptions fail."""
    count = 50 if is_quick else 500
    with running_sink() as sink, deployment() as host:
        target = subscribed(host, "failing", [f"{sink.url}/{number}" for number in range(count)])
        sink.say(status=503)
        publish(*target, Case(5, 1, 1, count))
        sink.wait_for("requests", count, _PATIENCE)
        began = time.monotonic()
        Arm(host.url).delete_topic("failing")
        figures = {"subscriptions": count, "seconds": time.monotonic() - began}
        yield PhaseResult(figures=figures, wanted={"seconds": 5})


def waiting(*, is_quick: bool) -> Iterator[PhaseResult]:
    """Measure the host's peak memory while events of 1 KB wait for retry."""
    count = 1000 if is_quick else 10_000
    with running_sink() as sink, deployment() as host:
        target = subscribed(host, "waiting", [f"{sink.url}/busy"])
        sink.say(status=503)
        publish(*target, Case(count, 100, 4, 1))
        _await_first_attempts(host.url)
        time.sleep(5)
        yield PhaseResult(figures=_process(host.process.pid), wanted={"peak MB": 90})


def _await_first_attempts(url: str) -> None:
    """Wait until every message was attempted, or is held because its endpoint fails."""
    give_up_at = time.monotonic() + _FIRST_ATTEMPTS
    while (left := _messages(url))["deliveries"]:
        if time.monotonic() > give_up_at:
            raise RuntimeError(f"not all was attempted in {_FIRST_ATTEMPTS:.0f} s: {left}")
        time.sleep(0.2)
    if not left["retries"] + left["waiting"]:
        raise RuntimeError("nothing waits for retry")


def _messages(url: str) -> dict[str, int]:
    """Return the number of messages on each queue of the host at *url*."""
    queues = requests.get(f"{url}/status/health", timeout=30).json()["queues"]
    return {name: each["messages"] for name, each in queues.items()}


def under_way(*, is_tls: bool, is_quick: bool) -> Iterator[PhaseResult]:
    """Measure the host when 2,000 pushes wait for their answers."""
    count = 200 if is_quick else 2000
    endpoints = count // 10  # each is unproven: ten of its sixteen events are enough
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        certificate = local_certificate(folder) if is_tls else None
        trusted = {"PUSHGRID_CA_BUNDLE": str(certificate.authority)} if certificate else {}
        sink = stack.enter_context(running_sink(certificate))
        host = stack.enter_context(deployment(trusted))
        target = subscribed(host, "hanging", [f"{sink.url}/{each}" for each in range(endpoints)])
        yield PhaseResult(phase="before", figures=_process(host.process.pid))
        sink.say(after=28)
        publish(*target, Case(16, 16, 1, endpoints))
        stats = sink.wait_for("under_way", count, 27)
        figures = _process(host.process.pid) | {"under way": stats["under_way"]}
        wanted = (
            {"under way": count} if is_tls else {"under way": count, "peak MB": 130, "threads": 24}
        )
        yield PhaseResult(phase="under way", figures=figures, wanted=wanted)


def _process(pid: int) -> dict[str, float]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    told = dict(line.split(":\t", 1) for line in lines)
    kib = {"MB": told["VmRSS"], "peak MB": told["VmHWM"]}
    figures = {name: int(value.split()[0]) / 1024 for name, value in kib.items()}
    return figures | {"threads": int(told["Threads"])}


CASES: dict[str, Measure] = {name: partial(beside, each) for name, each in TROUBLES.items()} | {
    "deleting a topic with 500 subscriptions that fail": deletion,
    "10,000 deliveries waiting for retry": waiting,
    "2,000 pushes under way, http": partial(under_way, is_tls=False),
    "2,000 pushes under way, TLS": partial(under_way, is_tls=True),
}


def main(parser: argparse.ArgumentParser, arguments: list[str]) -> int:
    """Print the table; returns 1 if a figure isn't as wanted, 2 if no case matches."""
    return run(parser, arguments, CASES)
