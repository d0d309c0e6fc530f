"""Measures what a delivery costs: processor time of host and storage."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import partial

from bench.load import Case, running_app, running_sink, settings
from bench.peers.cases import CASES as PEERS
from bench.peers.measuring import SECONDS, load, warm_up
from bench.peers.pushgrid import target_of
from bench.report import Measure, PhaseResult, processor_seconds, run
from devhost.azurite import running_azurite


def price(case: Case, options: Sequence[str] = (), *, is_quick: bool) -> Iterator[PhaseResult]:
    """Measure a case on a host of its own with these *options*; times are those of a delivery."""
    seconds = 1.0 if is_quick else SECONDS
    with (
        running_sink() as sink,
        running_azurite() as azurite,
        running_app(settings(azurite), options=options) as host,
    ):
        target = target_of(host, case, sink.url)
        rate = warm_up(target, case, sink)
        processes = {"host": host.process.pid, "Azurite": azurite.process.pid}
        before = {name: processor_seconds(pid) for name, pid in processes.items()}
        figures = load(target, case, sink, rate, seconds)
        if figures.lost:
            raise RuntimeError(f"{figures.lost} deliveries did not arrive")
        row: dict[str, float] = {"delivered/s": figures.delivered}
        row |= {"p50 ms": figures.p50, "p99 ms": figures.p99}
        for name, pid in processes.items():
            spent = processor_seconds(pid) - before[name]
            row[f"{name} CPU ms"] = spent / figures.deliveries * 1000
        yield PhaseResult(figures=row)


CASES: dict[str, Measure] = {
    each.name: partial(price, each.case)
    for each in PEERS
    if {"delivered", "p50"} & set(each.figures)
}
CASES |= {
    f"{name}, 2 workers": partial(CASES[name], ("--workers", "2"))
    for name in ("single events, 1 subscription", "single events, 10 subscriptions")
}


def main(parser: argparse.ArgumentParser, arguments: list[str]) -> int:
    """Print the table; returns 1 if a delivery did not arrive, 2 if no case matches."""
    return run(parser, arguments, CASES)
