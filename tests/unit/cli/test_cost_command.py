"""What `cost` prints, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from cli.costs.report import money
from tests.commands import Run

LOAD = "--events 1000000 --fanout 1 --batch 1 --size 1024"
Cost = Callable[[str], str]


@pytest.fixture
def cost(run: Run) -> Cost:
    """Return what the command prints with options after the load of `LOAD`."""

    def printed(options: str) -> str:
        found = run("cost", *LOAD.split(), *options.split())
        assert found.code == 0
        return found.out

    return printed


def document(cost: Cost, options: str) -> Any:
    return json.loads(cost(f"{options} --json"))


def test_people_get_both_kinds_of_traffic_beside_event_grid(cost: Cost) -> None:
    printed = cost("")

    assert "1,000,000 deliveries, 1,000,000 attempts, 0 dead letters" in printed
    assert "Event Grid, after its free operations               1.14        1.14" in printed
    assert "Event Grid                                          1.20        1.20" in printed
    assert max(map(len, printed.splitlines())) <= 100


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        ("", "Pushgrid costs more than Event Grid here: "),
        ("--events 1000000000 --batch 100", "Pushgrid costs less than Event Grid here: "),
        ("--events 100000000 --batch 100", "if the work is spread out, and less in bursts."),
        ("--events 1 --size 1", "Event Grid here: 7.17 dollars a month."),
        ("--events 1 --size 1", "That is 1 request, 1 delivery, 1 attempt, 0 dead letters."),
    ],
)
def test_the_verdict_is_for_both_kinds_of_traffic(cost: Cost, options: str, verdict: str) -> None:
    assert verdict in cost(options)


def test_programs_get_everything(cost: Cost) -> None:
    costs = document(cost, "--failure-rate 0.1")

    assert costs["workload"] == {
        "events": 1_000_000,
        "fanout": 1,
        "batch": 1,
        "size": 1024,
        "failure_rate": 0.1,
        "memory_mb": 2048,
    }
    assert costs["work"]["attempts"] == pytest.approx(1_111_111, rel=1e-6)
    assert costs["event_grid"]["operations"] == pytest.approx(2_111_111, rel=1e-6)
    assert costs["event_grid"]["dollars"] - costs["event_grid"]["total"] == pytest.approx(0.06)
    assert costs["work"]["payload_blobs"] == 0
    large = document(cost, "--events 100 --fanout 3 --batch 10 --size 153600")
    assert large["work"]["payload_blobs"] == 10
    assert costs["prices"]["queue"] == {
        "dollars": 0.004,
        "per": 10_000,
        "unit": "operations",
        "as_of": "2024-06",
    }
    assert set(costs["pushgrid"]) == {"bursts", "spread"}
    for bill in costs["pushgrid"].values():
        paid = sum(bill["dollars"].values()) + sum(bill["standing"].values()) - bill["granted"]
        assert bill["total"] == pytest.approx(paid)
        assert set(bill["instance_seconds"]) == {"publish", "deliver", "retry"}
    assert costs["pushgrid"]["spread"]["storage_operations"]["queue put"] > 1_000_000


def test_a_smaller_instance_costs_less_when_it_mostly_waits(cost: Cost) -> None:
    small, large = (
        document(cost, f"--memory-mb {memory}")["pushgrid"]["spread"]["total"]
        for memory in (512, 2048)
    )

    assert small < large / 2


@pytest.mark.parametrize("size", [1, 1024, 48000, 49000, 1049600])
@pytest.mark.parametrize("rate", ["0", "0.5", "1"])
def test_every_corner_has_an_answer(cost: Cost, size: int, rate: str) -> None:
    options = f"--events 1 --fanout 500 --size {size} --failure-rate {rate}"

    assert "nan" not in cost(options)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--events 0", "'--events': '0' is not a whole number from 1 to 10000000000000"),
        ("--batch 5001", "'5001' is not a whole number from 1 to 5000"),
        ("--size 1049601", "'1049601' is not a whole number from 1 to 1049600"),
        ("--failure-rate 1.1", "'--failure-rate': '1.1' is not a number from 0 to 1\n"),
        ("--failure-rate nan", "'--failure-rate': 'nan' is not a number from 0 to 1\n"),
        ("--events 5 --batch 6", "--batch: must not exceed --events\n"),
        ("--batch 100 --size 16000", "--batch: a publish request holds at most 1536000 bytes\n"),
        ("--events many", "'--events': 'many' is not a whole number from"),
        ("--memory-mb 1024", "'--memory-mb': '1024' is not one of "),
    ],
)
def test_invalid_options_are_refused_in_one_line(run: Run, options: str, complaint: str) -> None:
    found = run("cost", *LOAD.split(), *options.split())

    assert (found.code, found.out, found.err.count("\n")) == (2, "", 1)
    assert found.err.startswith("pushgrid ")
    assert complaint in found.err


@pytest.mark.parametrize(
    ("dollars", "written"),
    [(0.0, "0.00"), (-0.001, "0.00"), (1.234, "1.23"), (-2.7, "-2.70"), (1234.5, "1,234")],
)
def test_money_has_cents_below_a_hundred_dollars(dollars: float, written: str) -> None:
    assert money(dollars) == written
