"""Unknown names of benchmarks and of their cases."""

from __future__ import annotations

import importlib

import pytest

from bench.__main__ import MEASUREMENTS, main
from bench.peers.cases import CASES as PEERS
from bench.price import CASES as PRICED


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["nope"], "price, slow, isolation, filters, operations"),
        (["price", "--case", "nope"], ", ".join(f"'{name}'" for name in PRICED)),
        (["peers", "--case", "nope"], ", ".join(f"'{each.name}'" for each in PEERS)),
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
