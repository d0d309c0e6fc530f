"""Measures how many promised deliveries a minute the simulation plays and judges."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

from bench.report import PhaseResult, run
from tests.simulation.plan import draw_plan
from tests.simulation.runs import play_all

SEEDS, QUICK_SEEDS = 60, 6
WORKERS = 2
LEAST = 70_000.0  # promised deliveries a minute, on two idle cores


def simulate(*, is_quick: bool) -> Iterator[PhaseResult]:
    """Play seeds; long runs are apart, since hardly anything happens in them."""
    seeds = range(QUICK_SEEDS if is_quick else SEEDS)
    short = [seed for seed in seeds if not draw_plan(seed).is_long]
    began = time.monotonic()
    results = list(play_all(short, WORKERS))
    minutes = (time.monotonic() - began) / 60
    promised = sum(each.promised for each in results)
    figures = {
        "promised/min": promised / minutes,
        "seeds/min": len(short) / minutes,
        "simulated h": sum(each.seconds for each in results) / 3600,
    }
    yield PhaseResult(figures=figures, wanted={"promised/min": LEAST})


def main(parser: argparse.ArgumentParser, arguments: list[str]) -> int:
    """Measure, and print a table."""
    return run(parser, arguments, {"a deployment in simulated time": simulate})
