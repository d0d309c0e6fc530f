"""The table of what was measured, the limits in it, and the processor time of others."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pytest

from bench.report import PhaseResult, run, table

SLOW = PhaseResult(
    case="slow",
    phase="cold start",
    figures={"delivered/s": 23.94, "seconds": 83.5},
    wanted={"delivered/s": 450, "seconds": 90},
    others=0.25,
)


def test_a_figure_that_is_not_as_wanted_has_its_limit_beside_it():
    unjudged = PhaseResult(case="paced", figures={"p50 ms": 60.0})

    lines = [line.split("|") for line in table([SLOW, unjudged], ["c: no memory"]).splitlines()]

    assert [[cell.strip() for cell in line[1:-1]] for line in (lines[0], *lines[2:4])] == [
        ["case", "phase", "delivered/s", "seconds", "p50 ms", "others' CPU"],
        ["slow", "cold start", "23.9 (wanted 450)", "83.5", "", "25%"],
        ["paced", "", "", "", "60.0", "-"],
    ]
    assert lines[4:] == [["failed: c: no memory"]]


@pytest.mark.parametrize(
    ("figure", "missed"), [("delivered/s", [9.0]), ("seconds", [11.0]), ("under way", [9.0])]
)
def test_rates_and_counts_have_a_least_and_all_else_a_most(figure: str, missed: list[float]):
    rows = [PhaseResult(figures={figure: each}, wanted={figure: 10}) for each in (9.0, 10.0, 11.0)]

    assert [row.figures[figure] for row in rows if row.missed] == missed


def test_a_case_that_fails_ends_no_other(capsys: pytest.CaptureFixture[str]):
    def failing(*, is_quick: bool) -> Iterator[PhaseResult]:
        yield PhaseResult(phase="before", figures={"seconds": 1.0})
        raise RuntimeError(f"no memory, {is_quick}")

    assert run(argparse.ArgumentParser(), [], {"a": failing, "b": failing}) == 1

    out = capsys.readouterr().out
    assert out.count("before") == 2
    assert "failed: a: no memory, False\nfailed: b:" in out
