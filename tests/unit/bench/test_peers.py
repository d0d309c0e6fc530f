"""The comparison's table, and what it says of a system that is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bench.load import Case
from bench.peers import comparison
from bench.peers.cases import CASES
from bench.peers.measuring import Figures
from bench.peers.system import Need, PublishTarget, System, SystemFailedError
from bench.peers.table import Results, table

SINGLE = "single events, 1 subscription"
RUN = Figures(
    delivered=1.0,
    deliveries=1,
    p50=1.0,
    p99=1.0,
    p999=1.0,
    ack=1.0,
    lost=0,
    repeated=0,
    cpu=1.0,
    memory=1.0,
)


def delivering(*rates: float | None) -> list[Figures | None]:
    return [replace(RUN, delivered=rate) if rate else None for rate in rates]


BATCHES = "output batches of 100, single events"


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        pytest.param(
            {SINGLE: {"Pushgrid": delivering(100, 300, 50), "BullMQ": delivering(200, 400, 25)}},
            [[f"{SINGLE}: delivered/s", "100 (50-300)", "200 (25-400)", "0.750 (0.500-2.00)"]],
            id="the same repetition",
        ),
        pytest.param(
            {SINGLE: {"Pushgrid": delivering(None, 300), "BullMQ": delivering(200, 400)}},
            [[f"{SINGLE}: delivered/s", "300 (300-300)", "300 (200-400)", "0.750 (0.750-0.750)"]],
            id="one failed",
        ),
        pytest.param(
            {SINGLE: {"BullMQ": delivering(200)}, BATCHES: {"Pushgrid": delivering(300)}},
            [
                [f"{SINGLE}: delivered/s", "200 (200-200)", "-", "-"],
                [f"{BATCHES}: delivered/s", "-", "300 (300-300)", "1.50 (1.50-1.50)"],
            ],
            id="batches",
        ),
    ],
)
def test_a_figure_has_its_median_range_and_ratio(results: Results, expected: list[list[str]]):
    lines = [line for line in table(results, {}).splitlines()[2:] if ": delivered/s" in line]

    assert [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines] == expected


def test_the_table_names_losses_repeats_and_versions():
    results: Results = {SINGLE: {"Celery": [replace(RUN, lost=2, repeated=1), RUN, None]}}

    lines = table(results, {"python": "3.13.1", "redis": "7"}).splitlines()

    assert [line.count("|") for line in lines[:3]] == [4, 4, 4]
    assert lines[-2:] == [
        f"Celery, {SINGLE}: 1 failed, 2 lost, 1 repeated",
        "python 3.13.1, redis 7",
    ]


def system(*needs: Need, name: str = "Queue") -> System:
    @contextmanager
    def start(_: Case, __: str) -> Iterator[PublishTarget]:
        raise SystemFailedError("queue does not start: no memory")
        yield PublishTarget("")

    return System(name=name, needs=needs, versions=dict, start=start)


def test_a_missing_server_is_named_with_its_package(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    there = system(Need("sh", "-"), Need(tmp_path, "-"), name="There")
    server = Need("no-such-server", "apt install no-such-server")
    absent = system(server, Need(tmp_path / "queue", "make bench OF=peers"))

    assert comparison.present([absent, there]) == [there]

    assert capsys.readouterr().err.strip().removeprefix("… ") == (
        "Queue is left out: no-such-server is missing: apt install no-such-server; "
        "queue is missing: make bench OF=peers"
    )


def test_a_system_that_does_not_start_ends_no_other_measurement(
    capsys: pytest.CaptureFixture[str],
):
    assert comparison.compare([system()], CASES[:2], 2) == {
        each.name: {"Queue": [None, None]} for each in CASES[:2]
    }
    assert "Queue failed: queue does not start: no memory" in capsys.readouterr().err
