"""
Every test on both event loops; one pusher a test; one authority.

The pusher is closed at the end: a socket left open fails the test.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.push.authority import Authority
from tests.integration.push.on_loop import LOOPS, HttpPusher, running_loop
from tests.integration.push.scripted import LOCAL


@pytest.fixture(params=LOOPS, autouse=True)
def loop(request: pytest.FixtureRequest) -> Iterator[str]:
    with running_loop(request.param):
        yield request.param


@pytest.fixture
def pusher() -> Iterator[HttpPusher]:
    made = HttpPusher(LOCAL)
    yield made
    made.close()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))
