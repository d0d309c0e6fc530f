"""Replays on a deployment in memory, as their tests ask for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pushgrid.testing.deployment import Pushgrid
from pushgrid.testing.topic import Subscriber
from shared.subscriptions.subscription import DeadLetterDestination

PLACED = {"id": "e-17", "eventType": "Shop.OrderPlaced", "subject": "/orders/17"}
AT = "2026-02-09T11:59:00Z"
AZURE = DeadLetterDestination(container="azure", account="testing")
CRM = {"topic": "orders", "subscription": "crm"}


def lose_an_event(pushgrid: Pushgrid, *later: int) -> Subscriber:
    """Dead-letter an event of ``orders/crm``, which answers *later* from then on."""
    orders = pushgrid.topic("orders")
    subscriber = orders.subscribe("crm", answers=[400, *later])
    orders.publish(PLACED)
    pushgrid.advance(hours=1)
    return subscriber


def replayed(pushgrid: Pushgrid, **members: Any) -> dict[str, Any]:
    """Replay, and return the job as it ended."""
    job = pushgrid.arm("POST", "replays", members)
    pushgrid.advance(minutes=5)
    found: dict[str, Any] = pushgrid.arm("GET", f"replays/{job['id']}")
    return found


def before(
    patch: pytest.MonkeyPatch, port: object, method: str, act: Callable[..., object]
) -> None:
    """Call *act* before each call of a port's method, with the same arguments."""
    call = getattr(port, method)

    def called(*given: Any) -> Any:
        act(*given)
        return call(*given)

    patch.setattr(port, method, called)


def ids(subscriber: Subscriber) -> list[str]:
    return [each["id"] for each in subscriber.received]
