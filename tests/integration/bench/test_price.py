"""What a delivery costs on running servers."""

from __future__ import annotations

from bench.load import Case
from bench.price import price


def test_a_delivery_has_its_price_on_both() -> None:
    beside, served = price(Case(0, 10, 4, 2, batching=5), is_quick=True)

    assert set(beside.figures) == {
        "delivered/s",
        "p50 ms",
        "p99 ms",
        "CPU ms",
        "memory MB",
        "disk sync ms",
    }
    assert set(served.figures) - set(beside.figures) == {"delivered : Azurite", "CPU : Azurite"}
    assert min((*beside.figures.values(), *served.figures.values())) > 0
