"""Many writers of one event subscription, through the official management client."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

from azure.mgmt.eventgrid import models as m

from testbed.subscriber import Subscriber
from tests.e2e.managing import GROUP, webhook


def test_who_patches_at_once_loses_nothing(
    client: Any, subscriber: Callable[..., Subscriber], name: str
):
    """Four writers, each of a member of its own, and two of them by the other form."""
    topic = client.topics.begin_create_or_update(GROUP, name, m.Topic(location="x")).result()
    nested = (client.topic_event_subscriptions, (GROUP, name, "crm"))
    extension = (client.event_subscriptions, (topic.id, "crm"))
    wanted = m.EventSubscription(destination=webhook(subscriber()))
    nested[0].begin_create_or_update(*nested[1], wanted).result()
    expires = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)

    for number in range(1, 6):
        patches: list[tuple[Any, dict[str, Any]]] = [
            (nested, {"labels": [str(number)]}),
            (nested, {"filter": m.EventSubscriptionFilter(subject_begins_with=str(number))}),
            (extension, {"retry_policy": m.RetryPolicy(max_delivery_attempts=number)}),
            (extension, {"expiration_time_utc": expires + timedelta(hours=number)}),
        ]

        def patch(form: Any, members: dict[str, Any]) -> None:
            operations, where = form
            update = m.EventSubscriptionUpdateParameters(**members)
            operations.begin_update(*where, update).result()

        with ThreadPoolExecutor(len(patches)) as pool:
            for done in [pool.submit(patch, *each) for each in patches]:
                done.result()

        stored = nested[0].get(*nested[1])
        assert stored.labels == [str(number)]
        assert stored.filter.subject_begins_with == str(number)
        assert stored.retry_policy.max_delivery_attempts == number
        assert stored.expiration_time_utc == expires + timedelta(hours=number)
