"""What `cost` shows, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.__main__ import main
from cli.costs.report import money

LOAD = ["--events", "1000000", "--fanout", "1", "--batch", "1", "--size", "1024"]


def test_people_get_both_kinds_of_traffic_beside_event_grid(capsys: pytest.CaptureFixture[str]):
    assert main(["cost", *LOAD]) == 0

    said = capsys.readouterr().out
    assert "1,000,000 deliveries, 1,000,000 attempts, 0 dead letters" in said
    assert "Event Grid, after its free operations               1.14        1.14" in said
    assert "Event Grid                                          1.20        1.20" in said
    assert "Pushgrid costs more than Event Grid here: " in said
    assert max(map(len, said.splitlines())) <= 100


def test_programs_get_everything(capsys: pytest.CaptureFixture[str]):
    assert main(["cost", *LOAD, "--failure-rate", "0.1", "--json"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert told["workload"] == {
        "events": 1_000_000,
        "fanout": 1,
        "batch": 1,
        "size": 1024,
        "failure_rate": 0.1,
        "memory_mb": 2048,
    }
    assert told["work"]["attempts"] == pytest.approx(1_111_111, rel=1e-6)
    assert told["event_grid"]["operations"] == pytest.approx(2_111_111, rel=1e-6)
    assert told["event_grid"]["dollars"] - told["event_grid"]["total"] == pytest.approx(0.06)
    assert told["work"]["payload_blobs"] == 0
    assert set(told["pushgrid"]) == {"bursts", "spread"}
    for bill in told["pushgrid"].values():
        paid = sum(bill["dollars"].values()) + sum(bill["standing"].values()) - bill["granted"]
        assert bill["total"] == pytest.approx(paid)
        assert bill["storage_operations"]["queue put"] > 1_000_000
        assert set(bill["instance_seconds"]) == {"publish", "deliver", "retry"}


def test_a_smaller_instance_costs_less_when_it_mostly_waits(capsys: pytest.CaptureFixture[str]):
    totals = []
    for memory in ("512", "2048"):
        assert main(["cost", *LOAD, "--memory-mb", memory, "--json"]) == 0
        totals.append(json.loads(capsys.readouterr().out)["pushgrid"]["spread"]["total"])

    assert totals[0] < totals[1] / 2


def test_publishing_in_batches_makes_it_cheaper_than_event_grid(
    capsys: pytest.CaptureFixture[str],
):
    load = ["--events", "1000000000", "--fanout", "1", "--batch", "100", "--size", "1024"]
    assert main(["cost", *load]) == 0

    assert "Pushgrid costs less than Event Grid here: " in capsys.readouterr().out


def test_it_may_depend_on_how_events_come(capsys: pytest.CaptureFixture[str]):
    load = ["--events", "100000000", "--fanout", "1", "--batch", "100", "--size", "1024"]
    assert main(["cost", *load]) == 0

    assert "spread out, and less in bursts." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (["--events", "0"], "--events: must be 1 to 10000000000000"),
        (["--fanout", "501"], "--fanout: must be 1 to 500"),
        (["--batch", "5001"], "--batch: must be 1 to 5000"),
        (["--batch", "-1"], "--batch: must be 1 to 5000"),
        (["--size", "1049601"], "--size: must be 1 to 1049600"),
        (["--failure-rate", "1.1"], "--failure-rate: must be 0 to 1"),
        (["--failure-rate", "nan"], "--failure-rate: must be 0 to 1"),
        (["--events", "5", "--batch", "6"], "--batch: must not exceed --events"),
        (
            ["--batch", "100", "--size", "16000"],
            "--batch: a publish request holds at most 1536000 bytes",
        ),
    ],
    ids=" ".join,
)
def test_what_makes_no_sense_is_refused_in_one_line(
    change: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["cost", *LOAD, *change]) == 2

    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"python -m cli cost: {complaint}\n"


@pytest.mark.parametrize("wrong", [["--events", "many"], ["--memory-mb", "1024"], ["--what", "1"]])
def test_what_can_not_be_read_is_refused_in_one_line(
    wrong: list[str], capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as stopped:
        main(["cost", *LOAD, *wrong])

    assert stopped.value.code == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_one_of_a_kind_is_said_as_one(capsys: pytest.CaptureFixture[str]):
    load = ["--events", "1", "--fanout", "1", "--batch", "1", "--size", "1"]
    assert main(["cost", *load]) == 0

    said = capsys.readouterr().out
    assert "1 event a month of 1 byte, published 1 at a time, each to 1 event subscription;" in said
    assert "That is 1 request, 1 delivery, 1 attempt, 0 dead letters." in said
    assert "Event Grid here: 3.13 dollars a month." in said


def test_programs_get_what_was_reckoned_with(capsys: pytest.CaptureFixture[str]):
    assert main(["cost", *LOAD, "--json"]) == 0

    assert json.loads(capsys.readouterr().out)["prices"]["queue"] == {
        "dollars": 0.004,
        "per": 10_000,
        "unit": "operations",
        "as_of": "2024-06",
    }


def test_programs_get_the_blobs_of_large_events(capsys: pytest.CaptureFixture[str]):
    load = ["--events", "100", "--fanout", "3", "--batch", "10", "--size", "153600"]
    assert main(["cost", *load, "--json"]) == 0

    assert json.loads(capsys.readouterr().out)["work"]["payload_blobs"] == 10


@pytest.mark.parametrize("size", ["1", "1024", "48000", "49000", "1049600"])
@pytest.mark.parametrize("rate", ["0", "0.5", "1"])
def test_every_corner_has_an_answer(size: str, rate: str, capsys: pytest.CaptureFixture[str]):
    load = ["--events", "1", "--fanout", "500", "--batch", "1"]
    assert main(["cost", *load, "--size", size, "--failure-rate", rate]) == 0

    assert "nan" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("dollars", "written"),
    [(0.0, "0.00"), (-0.001, "0.00"), (1.234, "1.23"), (-2.7, "-2.70"), (1234.5, "1,234")],
)
def test_money_has_cents_where_they_tell_something(dollars: float, written: str):
    assert money(dollars) == written


def test_the_readme_names_the_command():
    assert "python -m cli cost" in (Path(__file__).parents[3] / "README.md").read_text()
