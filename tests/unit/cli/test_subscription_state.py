"""What the timeline says of a subscription beside its attempts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest

from cli.subscription_state import SubscriptionState, UnknownName, document, read_state, text
from shared.adapters.storage.health_table import TableHealth
from shared.arm.subscription_codec import to_subscription
from shared.delivery.health.endpoint_health import Health, Held, Hold, NeedsProbe, Open, endpoint_id
from shared.delivery.outcome import Outcome
from shared.engine.ports import Table
from shared.metrics import CountRow, Metric, Series, Span, Sum
from tests.builders import CRM
from tests.fakes import START, MemoryCounts, MemoryResources
from tests.unit.arm.documents import subscription, topic

MINUTE = timedelta(minutes=1)
SINCE, NOW = START - 60 * MINUTE, START + MINUTE


@pytest.fixture
def store() -> MemoryResources:
    store = MemoryResources()
    store.put(Table.TOPICS, "topic", "orders", topic(), None)
    store.put(Table.EVENT_SUBSCRIPTIONS, "orders", "crm", subscription(), None)
    return store


def hold(store: MemoryResources, until: timedelta, endpoint: str | None = None) -> None:
    """Keep what is sent to the endpoint back for so long after START."""
    wanted = Hold(
        since=START,
        until=START + until,
        why="probation for Busy: 10 s",
        sent_at=START,
        probation=Outcome.BUSY,
    )
    own = endpoint_id(to_subscription(subscription()))
    health = Health(endpoint=endpoint or own, hold=wanted)
    TableHealth(store, lambda: 0.0).write(CRM, health, None)


def counted(name: str, counts: Mapping[Metric, int], at: timedelta = timedelta()) -> MemoryCounts:
    counts_of_metric = {
        Series(metric): Sum(count, 1, count, count) for metric, count in counts.items()
    }
    memory = MemoryCounts()
    memory.write([CountRow(Span.MINUTE, START + at, "orders", name, "i-1", counts_of_metric)])
    return memory


def seen(store: MemoryResources, counts: MemoryCounts | None = None) -> SubscriptionState:
    return read_state(store, counts or MemoryCounts(), ("Orders", "CRM"), SINCE, NOW)


@pytest.mark.parametrize(
    ("names", "printed"),
    [
        (("orderz", "crm"), "there is no topic 'orderz'; the nearest is 'orders'"),
        (("x", "crm"), "there is no topic 'x'"),
        (("orders", "crn"), "no event subscription 'crn' of topic 'orders'; the nearest is 'crm'"),
        (("orders", "billing"), "there is no event subscription 'billing' of topic 'orders'"),
    ],
)
def test_a_mistyped_name_is_reported(
    store: MemoryResources, names: tuple[str, str], printed: str
) -> None:
    with pytest.raises(UnknownName) as caught:
        read_state(store, MemoryCounts(), names, SINCE, NOW)

    assert str(caught.value).endswith(printed)


def test_a_topic_of_a_namespace_is_known(store: MemoryResources) -> None:
    store.put(Table.TOPICS, "namespacetopic", "shop.orders", {"name": "shop.orders"}, None)

    with pytest.raises(UnknownName, match="event subscription"):
        read_state(store, MemoryCounts(), ("shop.orders", "crm"), SINCE, NOW)


def test_a_hold_is_shown_while_it_lasts(store: MemoryResources) -> None:
    hold(store, MINUTE * 3)

    found = seen(store)

    assert found.availability == Held(START + MINUTE * 3, "probation for Busy: 10 s")
    printed = text(found, SINCE, NOW).splitlines()[0]
    assert printed.startswith(
        "Held: the endpoint is sent nothing for another 0:02:00 (probation for"
    )
    assert document(found)["held"] == {
        "until": "2026-02-09T12:03:00.0000000Z",
        "why": "probation for Busy: 10 s",
    }


def test_a_hold_that_is_over_awaits_its_probe(store: MemoryResources) -> None:
    hold(store, timedelta(seconds=1))

    found = seen(store)

    assert found.availability == NeedsProbe()
    assert "one event is sent first" in text(found, SINCE, NOW)
    assert document(found)["held"] == {"until": None, "why": "a probe is due"}


def test_a_hold_of_an_endpoint_that_was_corrected_is_none(store: MemoryResources) -> None:
    hold(store, MINUTE * 3, endpoint="another")

    found = seen(store)

    assert found.availability == Open()
    assert "Held" not in text(found, SINCE, NOW)
    assert document(found)["held"] is None


def test_filtered_events_are_counted(store: MemoryResources) -> None:
    counts = counted("", {Metric.PUBLISH_SUCCESS: 5, Metric.UNMATCHED: 2})

    printed = text(seen(store, counts), SINCE, NOW)

    assert "5 events published, of which 0 matched this subscription and 2 matched none" in printed
    assert printed.endswith("Its filters matched none of them.")


def test_what_matched_is_counted(store: MemoryResources) -> None:
    counts = counted(
        "crm",
        {
            Metric.MATCHED: 4,
            Metric.DELIVERY_SUCCESS: 1,
            Metric.DEAD_LETTERED: 2,
            Metric.DROPPED: 1,
        },
    )

    found = seen(store, counts)

    printed = text(found, SINCE, NOW)
    assert "4 matched this subscription" in printed
    assert "1 delivered, 2 dead-lettered, 1 dropped" in printed
    assert "matched none of them" not in printed
    assert document(found)["counts"]["MatchedEventCount"] == 4


def test_counts_of_before_are_left_out(store: MemoryResources) -> None:
    counts = counted("", {Metric.PUBLISH_SUCCESS: 5}, at=-90 * MINUTE)

    assert seen(store, counts).counts[Metric.PUBLISH_SUCCESS] == 0


def test_an_endpoint_without_consent_is_sent_nothing(store: MemoryResources) -> None:
    printed = text(
        SubscriptionState(has_consented=False, availability=Open(), counts=seen(store).counts),
        SINCE,
        NOW,
    )

    assert printed.startswith("Not delivering: the endpoint has not completed")
