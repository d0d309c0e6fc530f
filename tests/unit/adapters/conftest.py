"""A pool's clock, and pushes that last."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.adapters.pool import Time, Work


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def work() -> Iterator[Work]:
    work = Work()
    yield work
    work.release()
