"""Event subscriptions that are accepted: as they are stored, shown and used by deliveries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shared.arm.subscription_codec import to_subscription
from shared.events.topic import InputSchema
from shared.subscriptions.destination import WebHook
from shared.subscriptions.filters import EventFilter
from shared.subscriptions.subscription import (
    Batching,
    DeadLetterDestination,
    DeliverySchema,
    EventSubscription,
    RetryPolicy,
)
from tests.unit.arm.documents import (
    ACCOUNT_ID,
    DEPLOYMENT,
    HTTP_DEPLOYMENT,
    MAPPING,
    TOPIC_ID,
    dead_letter,
    refusal,
    rendered,
    subscription,
    topic,
    webhook,
)


def test_members_of_a_webhook_are_shown_but_the_secret() -> None:
    size = {"maxEventsPerBatch": 1, "preferredBatchSizeInKilobytes": 1024}
    given = webhook(**size, minimumTlsVersionAllowed="1.2")

    shown = rendered(subscription(destination=given))["destination"]

    hidden = {"endpointUrl": None, "endpointBaseUrl": "https://crm.example/hook"}
    assert shown["properties"] == given["properties"] | hidden


def test_members_without_effect_are_ignored() -> None:
    body = {
        "unknown": 1,
        "properties": {
            "unknown": 1,
            "topic": "theirs",
            "provisioningState": "Failed",
            "destination": webhook(
                maxEventsPerBatch=None,
                preferredBatchSizeInKilobytes=64,
                deliveryAttributeMappings=[],
                azureActiveDirectoryTenantId=None,
            ),
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


def test_deliveries_see_everything_they_need() -> None:
    stored = subscription(
        filter={"includedEventTypes": ["A.B"], "subjectBeginsWith": "/a", "subjectEndsWith": "z"},
        retryPolicy={"maxDeliveryAttempts": 3, "eventTimeToLiveInMinutes": 5},
        deadLetterDestination=dead_letter(),
        eventDeliverySchema="cloudeventschemav1_0",
    )

    assert to_subscription(stored) == EventSubscription(
        arm_id=f"{TOPIC_ID}/eventSubscriptions/crm",
        topic="orders",
        topic_id=TOPIC_ID,
        name="crm",
        generation="generation-1",
        destination=WebHook("https://crm.example/hook?code=s3cret"),
        input_schema=InputSchema.EVENT_GRID,
        delivery_schema=DeliverySchema.CLOUD_EVENTS,
        filter=EventFilter(
            included_event_types=frozenset({"a.b"}), subject_begins_with="/a", subject_ends_with="z"
        ),
        retry_policy=RetryPolicy(max_delivery_attempts=3, event_time_to_live_minutes=5),
        dead_letter=DeadLetterDestination(container="dead", account="acct"),
    )
    assert to_subscription(subscription()).dead_letter is None


@pytest.mark.parametrize("given", [None, [], ["All"], ["all"], ["All", "A"]])
def test_an_empty_list_of_types_means_all(given: Any) -> None:
    seen = to_subscription(subscription(filter={"includedEventTypes": given}))

    assert seen.filter.included_event_types == (
        frozenset({"all", "a"}) if given == ["All", "A"] else None
    )


def test_replacing_keeps_the_generation_so_that_waiting_events_go_to_the_new_endpoint() -> None:
    first = subscription()
    body = {"properties": {"destination": webhook("https://new.example/")}}

    second = subscription(body, name="CRM", existing=first, ids=iter(["generation-2"]))

    assert (second["generation"], second["name"]) == ("generation-1", "crm")
    assert second["id"] == first["id"]
    assert to_subscription(second).endpoint_url == "https://new.example/"
    assert subscription(ids=iter(["generation-2"]))["generation"] == "generation-2"


@pytest.mark.parametrize("name", ["abc", "a" * 64, "A-1", "Microsoft"])
def test_a_legal_name_is_accepted(name: str) -> None:
    assert subscription(name=name)["id"].endswith(f"/eventSubscriptions/{name}")


@pytest.mark.parametrize(
    ("account", "container"),
    [
        *(("acct", name) for name in ("abc", "a" * 63, "dead-letters-1", "1ab", "payloads2")),
        ("archive1", "payloads"),  # the app's own containers are in its own account only
    ],
)
@pytest.mark.parametrize("resource_id", [ACCOUNT_ID, ACCOUNT_ID.swapcase()], ids=["", "any case"])
def test_a_legal_container_is_accepted(resource_id: str, account: str, container: str) -> None:
    wanted = dead_letter(container=container)
    wanted["properties"]["resourceId"] = f"{resource_id.rpartition('/')[0]}/{account}"
    deployment = replace(DEPLOYMENT, dead_letter_accounts=["archive1"])

    stored = subscription(deployment=deployment, deadLetterDestination=wanted)

    assert stored["properties"]["deadLetterDestination"] == wanted
    expected = DeadLetterDestination(container=container, account=account)
    assert to_subscription(stored).dead_letter == expected


def test_http_is_accepted_where_the_deployment_allows_it() -> None:
    stored = subscription(destination=webhook("http://127.0.0.1:1/"), deployment=HTTP_DEPLOYMENT)

    assert to_subscription(stored).endpoint_url == "http://127.0.0.1:1/"


@pytest.mark.parametrize(
    ("events", "kilobytes", "expected"),
    [
        (None, None, (1, 64)),
        (1, 64, (1, 64)),  # from clients that do not use batching
        (1, 1024, (1, 1024)),
        (None, 64, (1, 64)),
        (None, 1, (10, 1)),
        (5000, 1024, (5000, 1024)),
    ],
)
def test_batching_is_on_for_more_than_one_event(
    events: int | None, kilobytes: int | None, expected: tuple[int, int]
) -> None:
    """Contract §2.4: clients always send 1 and 64; a size alone means 10 events."""
    given = {"maxEventsPerBatch": events, "preferredBatchSizeInKilobytes": kilobytes}

    stored = subscription(destination=webhook(**given))

    answer = rendered(stored)["destination"]["properties"]
    assert (answer["maxEventsPerBatch"], answer["preferredBatchSizeInKilobytes"]) == expected
    most, size = expected
    assert to_subscription(stored).batching == Batching(max_events=most, preferred_kilobytes=size)


@pytest.mark.parametrize(
    ("input_schema", "allowed"),
    [
        ("EventGridSchema", ("EventGridSchema", "CloudEventSchemaV1_0")),
        ("CloudEventSchemaV1_0", ("CloudEventSchemaV1_0",)),
        ("CustomEventSchema", ("CustomInputSchema", "EventGridSchema", "CloudEventSchemaV1_0")),
    ],
)
def test_the_input_schema_allows_some_delivery_schemas(
    input_schema: str, allowed: tuple[str, ...]
) -> None:
    """The matrix of Event Grid's "Event schemas", and the error its users report."""
    mapping = MAPPING if input_schema == "CustomEventSchema" else None
    of = topic(inputSchema=input_schema, inputSchemaMapping=mapping)

    for schema in DeliverySchema:
        if schema in allowed:
            stored = subscription(of=of, eventDeliverySchema=str(schema))
            assert to_subscription(stored).delivery_schema is schema
        else:
            assert refusal(subscription, of=of, eventDeliverySchema=str(schema))[1] == (
                f'The specified EventDeliverySchema value "{schema}" cannot be used in '
                f"combination with the topic's input schema of {input_schema}"
            )
    assert to_subscription(subscription(of=of)).delivery_schema == allowed[0]
