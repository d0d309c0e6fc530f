"""A pool's clock, and pushes that last."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes import Seconds
from tests.unit.adapters.pool import Work


@pytest.fixture
def time() -> Seconds:
    return Seconds()


@pytest.fixture
def work() -> Iterator[Work]:
    work = Work()
    yield work
    work.release()
