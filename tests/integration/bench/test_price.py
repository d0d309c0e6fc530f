"""What a delivery costs on a running host."""

from __future__ import annotations

from bench.load import Case
from bench.price import price


def test_a_delivery_has_its_price() -> None:
    (row,) = price(Case(0, 10, 4, 2, batching=5), is_quick=True)

    assert set(row.figures) == {
        "delivered/s",
        "p50 ms",
        "p99 ms",
        "host CPU ms",
        "Azurite CPU ms",
    }
    assert min(row.figures.values()) > 0
