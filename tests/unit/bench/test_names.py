"""A measurement, or a case of one, that is not there."""

from __future__ import annotations

import importlib

import pytest

from bench import throughput
from bench.__main__ import MEASUREMENTS, main


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["nope"], "throughput, isolation, filters, operations"),
        (["load"], "throughput, isolation, filters, operations"),
        (["throughput", "--case", "nope"], "'paced at 30/s'"),
    ],
)
def test_one_line_has_the_names_that_there_are(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2

    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("bench: ")
    assert arguments[-1] in err
    assert named in err


def test_there_is_a_measurement_of_each_name() -> None:
    for name in MEASUREMENTS:
        assert callable(importlib.import_module(f"bench.{name}").main)


def test_an_unknown_case_names_every_case(capsys: pytest.CaptureFixture[str]) -> None:
    assert throughput.main(["--case", "nope"]) == 2

    told = capsys.readouterr().err
    assert all(case.name in told for case in throughput.CASES)
