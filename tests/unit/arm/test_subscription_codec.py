"""Event subscriptions between ARM, storage and the data plane."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.arm.subscription_codec import to_subscription
from shared.arm.topic_subscription_codec import render_subscription
from shared.events.topic import InputSchema
from shared.subscriptions.filters import EventFilter
from shared.subscriptions.subscription import (
    DeadLetterDestination,
    DeliverySchema,
    EventSubscription,
    RetryPolicy,
)
from tests.unit.arm.documents import (
    LATEST,
    dead_letter,
    subscription,
    webhook,
)

TOPIC_ID = "/subscriptions/s1/resourceGroups/rg/providers/Microsoft.EventGrid/topics/orders"


def test_a_subscription_is_answered_with_its_defaults() -> None:
    assert render_subscription(subscription(), LATEST) == {
        "id": f"{TOPIC_ID}/eventSubscriptions/crm",
        "name": "crm",
        "type": "Microsoft.EventGrid/topics/eventSubscriptions",
        "systemData": None,
        "properties": {
            "topic": TOPIC_ID,
            "provisioningState": "Succeeded",
            "destination": {
                "endpointType": "WebHook",
                "properties": {
                    "endpointUrl": None,
                    "endpointBaseUrl": "https://crm.example/hook",
                    "maxEventsPerBatch": 1,
                    "preferredBatchSizeInKilobytes": 64,
                },
            },
            "filter": {"subjectBeginsWith": "", "subjectEndsWith": ""},
            "labels": None,
            "expirationTimeUtc": None,
            "eventDeliverySchema": "EventGridSchema",
            "retryPolicy": {"maxDeliveryAttempts": 30, "eventTimeToLiveInMinutes": 1440},
            "deadLetterDestination": None,
        },
    }


def test_everything_that_is_set_is_given_back_but_the_secret() -> None:
    properties: dict[str, Any] = {
        "destination": webhook(
            maxEventsPerBatch=1,
            preferredBatchSizeInKilobytes=1024,
            minimumTlsVersionAllowed="1.2",
            deliveryAttributeMappings=[],
            azureActiveDirectoryTenantId=None,
        ),
        "filter": {
            "subjectBeginsWith": "/a",
            "subjectEndsWith": ".jpg",
            "includedEventTypes": ["A.B"],
            "isSubjectCaseSensitive": True,
            "enableAdvancedFilteringOnArrays": True,
            "advancedFilters": [],
        },
        "labels": ["blue", "green"],
        "eventDeliverySchema": "cloudeventschemav1_0",
        "retryPolicy": {"maxDeliveryAttempts": 1, "eventTimeToLiveInMinutes": 1},
        "deadLetterDestination": dead_letter(),
    }

    answer = render_subscription(subscription(**properties), LATEST)

    assert "s3cret" not in json.dumps(answer)
    destination = answer["properties"]["destination"]["properties"]
    assert destination["preferredBatchSizeInKilobytes"] == 1024
    assert destination["minimumTlsVersionAllowed"] == "1.2"
    del properties["filter"]["advancedFilters"]
    assert answer["properties"]["filter"] == properties["filter"]
    assert answer["properties"]["labels"] == ["blue", "green"]
    assert answer["properties"]["eventDeliverySchema"] == "CloudEventSchemaV1_0"
    assert answer["properties"]["retryPolicy"] == properties["retryPolicy"]
    assert answer["properties"]["deadLetterDestination"] == dead_letter()


def test_what_clients_send_without_meaning_it_is_ignored() -> None:
    body = {
        "unknown": 1,
        "properties": {
            "unknown": 1,
            "topic": "theirs",
            "provisioningState": "Failed",
            "destination": webhook(maxEventsPerBatch=None, preferredBatchSizeInKilobytes=64),
            "filter": {
                "advancedFilters": None,
                "enableAdvancedFilteringOnArrays": False,
                "isSubjectCaseSensitive": False,
                "includedEventTypes": [],
            },
            "deliveryWithResourceIdentity": None,
            "expirationTimeUtc": None,
            "retryPolicy": {"maxDeliveryAttempts": None},
            "deadLetterDestination": None,
        },
    }

    assert subscription(body) == subscription()


def test_the_data_plane_sees_everything_it_needs() -> None:
    stored = subscription(
        filter={"includedEventTypes": ["A.B"], "subjectBeginsWith": "/a", "subjectEndsWith": "z"},
        retryPolicy={"maxDeliveryAttempts": 3, "eventTimeToLiveInMinutes": 5},
        deadLetterDestination=dead_letter(),
        eventDeliverySchema="CloudEventSchemaV1_0",
    )

    assert to_subscription(stored) == EventSubscription(
        topic="orders",
        topic_id=TOPIC_ID,
        name="crm",
        generation="generation-1",
        endpoint_url="https://crm.example/hook?code=s3cret",
        input_schema=InputSchema.EVENT_GRID,
        delivery_schema=DeliverySchema.CLOUD_EVENTS,
        filter=EventFilter(
            included_event_types=frozenset({"a.b"}),
            subject_begins_with="/a",
            subject_ends_with="z",
        ),
        retry_policy=RetryPolicy(max_delivery_attempts=3, event_time_to_live_minutes=5),
        dead_letter=DeadLetterDestination(container="dead"),
    )
    assert to_subscription(subscription()).dead_letter is None


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        (None, None),
        ([], None),
        (["All"], None),
        (["all"], None),
        (["All", "A"], frozenset({"all", "a"})),
    ],
)
def test_an_empty_list_of_types_means_all(given: Any, seen: frozenset[str] | None) -> None:
    stored = subscription(filter={"includedEventTypes": given})

    assert to_subscription(stored).filter.included_event_types == seen


def test_replacing_keeps_the_generation_so_that_waiting_events_go_to_the_new_endpoint() -> None:
    first = subscription()

    second = subscription(
        {"properties": {"destination": webhook("https://new.example/")}},
        name="CRM",
        existing=first,
        ids=iter(["generation-2"]),
    )

    assert (second["generation"], second["name"]) == ("generation-1", "crm")
    assert second["id"] == first["id"]
    assert to_subscription(second).endpoint_url == "https://new.example/"


def test_creating_again_is_a_new_generation() -> None:
    assert subscription(ids=iter(["generation-2"]))["generation"] == "generation-2"


@pytest.mark.parametrize("name", ["abc", "a" * 64, "A-1", "Microsoft"])
def test_a_legal_name_is_accepted(name: str) -> None:
    assert subscription(name=name)["id"].endswith(f"/eventSubscriptions/{name}")
