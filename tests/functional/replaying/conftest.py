from __future__ import annotations

import pytest

from pushgrid.testing.deployment import Pushgrid
from pushgrid.testing.topic import Subscriber
from tests.functional.replaying.replays import AT, PLACED


@pytest.fixture
def crm(pushgrid: Pushgrid) -> Subscriber:
    """A subscription with three dead letters in two blobs; now it answers 200."""
    orders = pushgrid.topic("orders")
    subscriber = orders.subscribe("crm", answers=[400, 400, 400, 200])
    orders.publish([{**PLACED, "id": "e-1", "eventTime": AT}, {**PLACED, "id": "e-2"}])
    pushgrid.advance(hours=1)
    orders.publish({**PLACED, "id": "e-3"})
    pushgrid.advance(hours=1)
    return subscriber
