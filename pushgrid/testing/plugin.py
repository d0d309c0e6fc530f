"""Gives tests the fixture `pushgrid`. pytest loads it wherever Pushgrid is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pushgrid.testing.deployment import Pushgrid


@pytest.fixture
def pushgrid() -> Iterator[Pushgrid]:
    """A deployment of Pushgrid in memory, whose clock the test advances."""
    # Imported here: tests that don't use it pay nothing.
    from pushgrid.testing.deployment import Pushgrid
    from pushgrid.testing.in_process_http import requests_answered_by

    deployment = Pushgrid()
    with requests_answered_by(deployment):
        yield deployment
