"""Gives tests the fixture `pushgrid`. pytest loads it wherever Pushgrid is installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pushgrid.testing.deployment import Pushgrid


@pytest.fixture
def pushgrid() -> Iterator[Pushgrid]:
    """A deployment of Pushgrid in memory, whose clock the test advances."""
    # Imported here: tests that don't use it pay nothing.
    from pushgrid.testing.deployment import Pushgrid

    with ExitStack() as until_end:
        yield Pushgrid(until_end)
