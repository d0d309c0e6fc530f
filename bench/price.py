"""Measures what a delivery costs: `pushgrid serve` on both stores, beside the local host."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Protocol

from bench.disk import sync_ms
from bench.load import Case, running_sink
from bench.peers.cases import CASES as PEERS
from bench.peers.measuring import SECONDS, load, warm_up
from bench.peers.pushgrid import local_host, serve, serve_on_postgres
from bench.peers.system import PublishTarget
from bench.postgres import SHARED_BUFFERS
from bench.report import Measure, PhaseResult, run

_RATES, _TIMES = "delivered : Azurite", "CPU : Azurite"
_MEMORY = {"memory MB": 80.0}
#: Of `pushgrid serve` on SQLite, some beside the local host on Azurite.
_WANTED: Mapping[str, Mapping[str, float]] = {
    "single events, 1 subscription": {_RATES: 1.25, _TIMES: 0.7},
    "single events, 10 subscriptions": {_RATES: 1.15, _TIMES: 0.8},
    "100 a request, 1 subscription": {_RATES: 1.0, _TIMES: 0.9},
    "paced at 30/s": {"p50 ms": 3.5, "p99 ms": 8.0},
}
#: The same on PostgreSQL, whose processes count as well, but for their memory.
_WANTED_ON_POSTGRES: Mapping[str, Mapping[str, float]] = {
    "single events, 1 subscription": {_TIMES: 0.85},
    "single events, 10 subscriptions": {_TIMES: 0.9},
    "100 a request, 1 subscription": {_TIMES: 1.0},
    "paced at 30/s": {"p50 ms": 6.0, "p99 ms": 12.0},
}
_MEMORY_ON_POSTGRES = {"memory MB": 90.0}


class Start(Protocol):
    """Runs servers, subscribed for a case to a sink's URL."""

    def __call__(self, case: Case, sink: str, /) -> AbstractContextManager[PublishTarget]: ...


def measure(case: Case, start: Start, *, is_quick: bool) -> dict[str, float]:
    """Measure a case on servers of its own; times are those of a delivery, of all servers."""
    seconds = 1.0 if is_quick else SECONDS
    with running_sink() as sink, start(case, sink.url) as target:
        synced = sync_ms()
        figures = load(target, case, sink, warm_up(target, case, sink), seconds)
    if figures.lost:
        raise RuntimeError(f"{figures.lost} deliveries did not arrive")
    return {
        "delivered/s": figures.delivered,
        "p50 ms": figures.p50,
        "p99 ms": figures.p99,
        "CPU ms": figures.cpu,
        "memory MB": figures.memory,
        "disk sync ms": synced,
    }


def price(case: Case, name: str = "", *, is_quick: bool) -> Iterator[PhaseResult]:
    """Measure a case on all, one after the other; what is wanted of it goes by its *name*."""
    beside = measure(case, local_host, is_quick=is_quick)
    yield PhaseResult(phase="local host, Azurite", figures=beside)

    def compared(start: Start) -> dict[str, float]:
        found = measure(case, start, is_quick=is_quick)
        found[_RATES] = found["delivered/s"] / beside["delivered/s"]
        found[_TIMES] = found["CPU ms"] / beside["CPU ms"]
        return found

    wanted = {**_MEMORY, **_WANTED.get(name, {})}
    yield PhaseResult(phase="serve, SQLite", figures=compared(serve), wanted=wanted)
    found = {**compared(serve_on_postgres), "shared_buffers MB": SHARED_BUFFERS}
    wanted = {**_MEMORY_ON_POSTGRES, **_WANTED_ON_POSTGRES.get(name, {})}
    yield PhaseResult(phase="serve, PostgreSQL", figures=found, wanted=wanted)


def _price_of_workers(case: Case, *, is_quick: bool) -> Iterator[PhaseResult]:
    start = partial(local_host, options=("--workers", "2"))
    yield PhaseResult(phase="local host, Azurite", figures=measure(case, start, is_quick=is_quick))


CASES: dict[str, Measure] = {
    each.name: partial(price, each.case, each.name)
    for each in PEERS
    if {"delivered", "p50"} & set(each.figures)
}
CASES |= {
    f"{each.name}, 2 workers": partial(_price_of_workers, each.case)
    for each in PEERS
    if each.name in ("single events, 1 subscription", "single events, 10 subscriptions")
}


def main(parser: argparse.ArgumentParser, arguments: list[str]) -> int:
    """Print the table; returns 1 if a delivery did not arrive, 2 if no case matches."""
    return run(parser, arguments, CASES)
