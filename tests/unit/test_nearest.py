"""Which name was meant by one that is not there."""

from __future__ import annotations

import pytest

from shared.nearest import did_you_mean

_NAMES = ("orders", "Orders-2026", "crm", "shop.invoices", "returns")


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("order", "orders"),
        ("orderss", "orders"),
        ("ordres", "orders"),  # two exchanged
        ("oredrs", "orders"),
        ("ORDES", "orders"),
        ("orders-2025", "Orders-2026"),
        ("cmr", "crm"),
        ("shop.invoce", "shop.invoices"),
        ("retrnu", "returns"),
    ],
)
def test_a_misspelt_name_is_near(name: str, near: str) -> None:
    assert did_you_mean(name, _NAMES) == f"; did you mean '{near}'?"


@pytest.mark.parametrize(
    "name",
    [
        *("", "c", "cr", "xyz", "cmx"),  # nothing is like so short a name, or half of it is wrong
        *("oxxxrs", "invoices", "shop.none", "returneese"),
        *("orders", "CRM"),  # they are there, elsewhere
        "x" * 100_000,
    ],
)
def test_another_name_is_not_near(name: str) -> None:
    assert did_you_mean(name, _NAMES) == "."
