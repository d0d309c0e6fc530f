"""What becomes of events of a namespace's topic, up to the blob. Contract §2.1, §4."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from pushgrid.testing.memory import answered
from shared.engine.ports import Queue
from shared.http import Failure, NotAnswered
from shared.subscriptions.subscription import (
    DeadLetterDestination,
    DynamicHeader,
    RetryPolicy,
    StaticHeader,
)
from tests.builders import URL
from tests.functional.deployment import MINUTE, SECOND, Deployment
from tests.functional.namespace_shop import STRUCTURED, event, publish, subscribe

DEAD = DeadLetterDestination(container="dead")


def test_the_profile_of_namespaces_rules_whatever_the_default(shop: Deployment) -> None:
    """404 is never retried there; and headers say that it is of a namespace."""
    subscribe(shop)
    shop.pusher.script(URL, answered(500), answered(404))
    publish(shop, event())

    shop.run(shop.on(Queue.DELIVERIES)[0])
    (retry,) = shop.on(Queue.RETRIES)
    shop.clock.advance(10 * SECOND)
    shop.queues.stored[Queue.RETRIES].clear()
    shop.run(retry)

    assert shop.queues.waits(Queue.RETRIES) == []
    first, second = (sent.request for sent in shop.pusher.sent)
    assert first.headers["aeg-compatibility-mode-enabled"] == "false"
    assert [each.headers["aeg-delivery-count"] for each in (first, second)] == ["0", "1"]
    assert first.headers["Content-Type"] == STRUCTURED
    assert json.loads(first.body) == event()


@pytest.mark.parametrize(
    ("failure", "is_final"),
    [
        (Failure.UNSENDABLE, True),
        (Failure.UNAUTHORIZED, True),
        (Failure.NO_AUTHORITY, False),
        (Failure.FAULT, False),
    ],
)
def test_a_request_that_can_not_be_made_is_final_and_no_fault_of_ours_is(
    shop: Deployment, failure: Failure, *, is_final: bool
) -> None:
    """ArgumentException and UnauthorizedAccessException, as the edition lists them."""
    subscribe(shop, dead_letter=DEAD)
    shop.pusher.script(URL, NotAnswered(failure, "", 0))
    publish(shop, event())

    shop.run(shop.on(Queue.DELIVERIES)[0])

    ended, retried = (len(shop.queues.waits(each)) for each in (Queue.DEADLETTERS, Queue.RETRIES))
    assert (ended, retried) == ((1, 0) if is_final else (0, 1))


HEADERS = (
    StaticHeader(name="X-Team", value="crm"),
    StaticHeader(name="X-Key", value="s3cret", is_secret=True),
    DynamicHeader(name="X-Kind", path=("data", "kind")),
    DynamicHeader(name="X-None", path=("data", "none")),
)


def buried(app: Deployment) -> tuple[str, list[dict[str, Any]]]:
    """Write the dead letters, and return the folder and the content of their only blob."""
    app.clock.advance(5 * MINUTE)
    app.write_dead_letters.run(app.in_a_minute())
    (((container, path), body),) = app.dead_letters.blobs.items()
    return f"{container}/{path.rpartition('/')[0]}", json.loads(body)


def test_a_dead_letter_is_in_the_envelope_of_namespaces(shop: Deployment) -> None:
    subscribe(shop, name="Crm", dead_letter=DEAD, headers=HEADERS)
    shop.pusher.script(URL, answered(401))
    given = event(data={"kind": 7, "text": "grüße"}, team="a")
    publish(shop, given)

    shop.run(shop.on(Queue.DELIVERIES)[0])

    assert buried(shop) == (
        "dead/shop/Orders/Crm/2026/2/9/12",
        [
            {
                "deadLetterProperties": {
                    "deadletterreason": "Undeliverable due to client error",
                    "deliveryattempts": 1,
                    "deliveryresult": "Unauthorized",
                    "publishutc": "2026-02-09T12:00:00.0000000Z",
                    "deliveryattemptutc": "2026-02-09T12:00:00.0000000Z",
                },
                "event": given,
                "customDeliveryProperties": {"X-Team": "crm", "X-Kind": "7"},
            }
        ],
    )


def test_retention_ends_what_the_subscription_would_still_try(shop: Deployment) -> None:
    """At most 7 days or the topic's retention, whichever is lower: here two days."""
    subscribe(shop, dead_letter=DEAD, retry_policy=RetryPolicy(event_time_to_live_minutes=10080))
    publish(shop, event())
    shop.clock.advance(timedelta(days=2))

    shop.run(shop.on(Queue.DELIVERIES)[0])

    assert shop.pusher.sent == []
    _, (letter,) = buried(shop)
    assert letter["deadLetterProperties"] == {
        "deadletterreason": "Time to live was exceeded.",
        "deliveryattempts": 0,
        "deliveryresult": "Event was not acknowledged nor rejected.",
        "publishutc": "2026-02-09T12:00:00.0000000Z",
    }
