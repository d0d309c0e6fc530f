"""Which name was meant by one that is not there."""

from __future__ import annotations

import pytest

from shared.nearest import MISSPELT, did_you_mean, nearest

_MEMBERS = ("filter", "labels", "retryPolicy", "endpointType", "id", "key", "tags")
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


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("filters", "filter"),
        ("iflter", "filter"),
        ("FILTR", "filter"),
        ("retrypolci", "retryPolicy"),
        ("retryPolicies", None),
        ("retry_policy", "retryPolicy"),
        ("endpointKind", None),
        ("tag", "tags"),
        ("kye", "key"),
        ("etag", None),
        ("xy", None),
        ("a", None),
        ("", None),
    ],
)
def test_of_letters_that_differ_there_are_two_at_most(name: str, meant: str | None) -> None:
    assert nearest(name, _MEMBERS, MISSPELT) == meant


def test_a_name_that_is_refused_anyway_may_be_farther_off() -> None:
    assert nearest("endpointKind", _MEMBERS) == "endpointType"
    assert nearest("nothingLikeIt", _MEMBERS) is None
