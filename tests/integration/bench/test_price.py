"""What a delivery costs on running servers."""

from __future__ import annotations

from bench.load import Case
from bench.price import price


def test_a_delivery_has_its_price_on_all() -> None:
    beside, *served = price(Case(0, 10, 4, 2, batching=5), is_quick=True)

    assert set(beside.figures) == {
        "delivered/s",
        "p50 ms",
        "p99 ms",
        "CPU ms",
        "memory MB",
        "disk sync ms",
    }
    added = {"delivered : Azurite", "CPU : Azurite"}
    assert [set(each.figures) - set(beside.figures) for each in served] == [
        added,
        added | {"shared_buffers MB"},
    ]
    assert min(value for each in (beside, *served) for value in each.figures.values()) > 0
