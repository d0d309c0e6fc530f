"""One pusher a test, closed at its end: a socket left open fails the test; one authority."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shared.adapters.http.push import HttpPusher
from tests.integration.push.authority import Authority
from tests.integration.push.scripted import LOCAL


@pytest.fixture
def pusher() -> Iterator[HttpPusher]:
    made = HttpPusher(LOCAL)
    yield made
    made.close()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))
