"""Event subscriptions between ARM, storage and the data plane."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.errors import InvalidDocument
from shared.events.topic import InputSchema
from shared.subscriptions.subscription import (
    DeadLetterDestination,
    DeliverySchema,
    EventFilter,
    EventSubscription,
    RetryPolicy,
)
from shared.subscriptions.subscription_codec import (
    DELIVERY_SCHEMAS,
    render_subscription,
    subscription_of,
)
from tests.unit.subscriptions.documents import (
    HTTP_DEPLOYMENT,
    dead_letter,
    only_fault,
    subscription,
    targets,
    topic,
    webhook,
)

TOPIC_ID = "/subscriptions/s1/resourceGroups/rg/providers/Microsoft.EventGrid/topics/orders"
CLOUD = {"inputSchema": "CloudEventSchemaV1_0"}


def test_a_subscription_is_answered_with_its_defaults() -> None:
    assert render_subscription(subscription()) == {
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

    answer = render_subscription(subscription(**properties))

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

    assert subscription_of(stored) == EventSubscription(
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
        dead_letter=DeadLetterDestination(account="acct", container="dead"),
    )
    assert subscription_of(subscription()).dead_letter is None


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

    assert subscription_of(stored).filter.included_event_types == seen


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
    assert subscription_of(second).endpoint_url == "https://new.example/"


def test_creating_again_is_a_new_generation() -> None:
    assert subscription(ids=iter(["generation-2"]))["generation"] == "generation-2"


@pytest.mark.parametrize("input_schema", [InputSchema.EVENT_GRID, InputSchema.CLOUD_EVENTS])
@pytest.mark.parametrize("delivery_schema", DeliverySchema)
def test_the_matrix_of_schemas(input_schema: InputSchema, delivery_schema: DeliverySchema) -> None:
    """The matrix of Event Grid's "Event schemas", and the error its users report."""
    of = topic(inputSchema=str(input_schema))

    if delivery_schema in DELIVERY_SCHEMAS[input_schema]:
        stored = subscription(of=of, eventDeliverySchema=str(delivery_schema))
        assert subscription_of(stored).delivery_schema is delivery_schema
    else:
        with pytest.raises(InvalidDocument) as caught:
            subscription(of=of, eventDeliverySchema=str(delivery_schema))
        assert caught.value.message == (
            f'The specified EventDeliverySchema value "{delivery_schema}" cannot be used in '
            f"combination with the topic's input schema of {input_schema}"
        )


def test_the_matrix_allows_what_is_documented() -> None:
    assert {str(key): {*map(str, value)} for key, value in DELIVERY_SCHEMAS.items()} == {
        "EventGridSchema": {"EventGridSchema", "CloudEventSchemaV1_0"},
        "CloudEventSchemaV1_0": {"CloudEventSchemaV1_0"},
    }


@pytest.mark.parametrize(
    ("of", "default"),
    [
        (topic(), DeliverySchema.EVENT_GRID),
        (topic(inputSchema="CloudEventSchemaV1_0"), DeliverySchema.CLOUD_EVENTS),
    ],
)
def test_the_default_delivery_schema_is_the_topics(of: Any, default: DeliverySchema) -> None:
    assert subscription_of(subscription(of=of)).delivery_schema is default


def test_the_delivery_schema_cant_change() -> None:
    with pytest.raises(InvalidDocument) as caught:
        subscription(existing=subscription(), eventDeliverySchema="CloudEventSchemaV1_0")

    assert caught.value.message == (
        "The new event delivery schema value CloudEventSchemaV1_0 cannot be different from the "
        "already existing event delivery schema value EventGridSchema."
    )


@pytest.mark.parametrize("name", ["abc", "a" * 64, "A-1", "Microsoft"])
def test_a_legal_name_is_accepted(name: str) -> None:
    assert subscription(name=name)["id"].endswith(f"/eventSubscriptions/{name}")


@pytest.mark.parametrize("name", ["", "ab", "a" * 65, "a_b", "a b", "na\u00efve", "abc\n"])
def test_an_illegal_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        subscription(name=name)

    assert only_fault(caught.value).target == "name"


@pytest.mark.parametrize(
    ("member", "value", "is_legal"),
    [
        ("maxDeliveryAttempts", 0, False),
        ("maxDeliveryAttempts", 1, True),
        ("maxDeliveryAttempts", 30, True),
        ("maxDeliveryAttempts", 31, False),
        ("maxDeliveryAttempts", "5", False),
        ("maxDeliveryAttempts", 5.0, False),
        ("maxDeliveryAttempts", True, False),
        ("eventTimeToLiveInMinutes", 0, False),
        ("eventTimeToLiveInMinutes", 1, True),
        ("eventTimeToLiveInMinutes", 1440, True),
        ("eventTimeToLiveInMinutes", 1441, False),
        ("eventTimeToLiveInMinutes", -1, False),
    ],
)
def test_the_ranges_of_the_retry_policy(
    member: str,
    value: Any,
    is_legal: bool,  # noqa: FBT001 - a row
) -> None:
    if is_legal:
        assert subscription(retryPolicy={member: value})["properties"]["retryPolicy"][member]
    else:
        with pytest.raises(InvalidDocument, match="must be a whole number between 1 and"):
            subscription(retryPolicy={member: value})


@pytest.mark.parametrize(
    ("properties", "target", "words"),
    [
        pytest.param({"destination": None}, "destination", "missing", id="no destination"),
        pytest.param({"destination": {}}, "destination.endpointType", "missing", id="no type"),
        pytest.param(
            {"destination": {"endpointType": "Pigeon"}},
            "destination.endpointType",
            "it can be: WebHook, ",
            id="unknown type",
        ),
        pytest.param(
            {"destination": {"endpointType": "storagequeue", "properties": {}}},
            "destination.endpointType",
            "The endpoint type StorageQueue is not supported.",
            id="other type",
        ),
        pytest.param(
            {"destination": {"endpointType": "WebHook"}},
            "destination.properties.endpointUrl",
            "Supplied URL is invalid",
            id="no url",
        ),
        pytest.param(
            {"destination": webhook(5)},
            "destination.properties.endpointUrl",
            "must be a string",
            id="number as url",
        ),
        pytest.param(
            {"destination": webhook("http://crm.example/")},
            "destination.properties.endpointUrl",
            "Supplied URL is invalid. It cannot be null or empty and should be a proper HTTPS URL",
            id="http",
        ),
        pytest.param(
            {"destination": webhook(maxEventsPerBatch=2)},
            "destination.properties.maxEventsPerBatch",
            "batching is not supported",
            id="batching",
        ),
        pytest.param(
            {"destination": webhook(maxEventsPerBatch=5001)},
            "destination.properties.maxEventsPerBatch",
            "between 1 and 5000",
            id="batch out of range",
        ),
        pytest.param(
            {"destination": webhook(preferredBatchSizeInKilobytes=63)},
            "destination.properties.preferredBatchSizeInKilobytes",
            "batching is not supported",
            id="batching by size",
        ),
        pytest.param(
            {"destination": webhook(maxEventsPerBatch=1, preferredBatchSizeInKilobytes=1025)},
            "destination.properties.preferredBatchSizeInKilobytes",
            "between 1 and 1024",
            id="batch size out of range",
        ),
        pytest.param(
            {"destination": webhook(deliveryAttributeMappings=[{"name": "x"}])},
            "destination.properties.deliveryAttributeMappings",
            "not supported",
            id="delivery attributes",
        ),
        pytest.param(
            {"destination": webhook(azureActiveDirectoryTenantId="t")},
            "destination.properties.azureActiveDirectoryTenantId",
            "not supported",
            id="entra tenant",
        ),
        pytest.param(
            {"destination": webhook(azureActiveDirectoryApplicationIdOrUri="a")},
            "destination.properties.azureActiveDirectoryApplicationIdOrUri",
            "not supported",
            id="entra application",
        ),
        pytest.param(
            {"destination": webhook(minimumTlsVersionAllowed="2")},
            "destination.properties.minimumTlsVersionAllowed",
            "it can be",
            id="tls",
        ),
        pytest.param(
            {"filter": {"advancedFilters": [{"operatorType": "IsNotNull"}]}},
            "filter.advancedFilters",
            "not supported",
            id="advanced filters",
        ),
        pytest.param(
            {"filter": {"includedEventTypes": ["a", 1]}},
            "filter.includedEventTypes",
            "a list of strings",
            id="number as type",
        ),
        pytest.param(
            {"filter": {"includedEventTypes": "a"}},
            "filter.includedEventTypes",
            "a list of strings",
            id="text as types",
        ),
        pytest.param(
            {"filter": {"subjectBeginsWith": 1}},
            "filter.subjectBeginsWith",
            "a string",
            id="number as prefix",
        ),
        pytest.param(
            {"filter": {"isSubjectCaseSensitive": "true"}},
            "filter.isSubjectCaseSensitive",
            "true or false",
            id="text as flag",
        ),
        pytest.param({"labels": "x"}, "labels", "a list of strings", id="text as labels"),
        pytest.param(
            {"expirationTimeUtc": "2030-01-01T00:00:00Z"},
            "expirationTimeUtc",
            "not supported",
            id="expiration",
        ),
        pytest.param(
            {"deadLetterWithResourceIdentity": {"identity": {}}},
            "deadLetterWithResourceIdentity",
            "not supported",
            id="dead letters by identity",
        ),
        pytest.param(
            {"destination": None, "deliveryWithResourceIdentity": {"identity": {}}},
            "deliveryWithResourceIdentity",
            "not supported",
            id="delivery by identity",
        ),
        pytest.param(
            {"eventDeliverySchema": "Xml"}, "eventDeliverySchema", "it can be", id="schema"
        ),
        pytest.param(
            {"deadLetterDestination": {"properties": dead_letter()["properties"]}},
            "deadLetterDestination.endpointType",
            "missing",
            id="dead letters without type",
        ),
        pytest.param(
            {"deadLetterDestination": dead_letter() | {"endpointType": "EventHub"}},
            "deadLetterDestination.endpointType",
            "it can be: StorageBlob",
            id="dead letters elsewhere",
        ),
        pytest.param(
            {"deadLetterDestination": dead_letter("other")},
            "deadLetterDestination.properties.resourceId",
            "only go to the app's own storage account; 'other' is another",
            id="another account",
        ),
        pytest.param(
            {"deadLetterDestination": dead_letter("AC")},
            "deadLetterDestination.properties.resourceId",
            "the ARM id of a storage account",
            id="no account",
        ),
    ],
)
def test_a_bad_subscription_is_refused(properties: Any, target: str, words: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        subscription(**properties)

    assert only_fault(caught.value).target == f"properties.{target}"
    assert words in caught.value.message


@pytest.mark.parametrize("account", ["acct2", "cct", "a" * 25, "acct/", "acct.evil.example"])
def test_dead_letters_go_to_no_other_account(account: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        subscription(deadLetterDestination=dead_letter(account))

    assert targets(caught.value) == ["properties.deadLetterDestination.properties.resourceId"]


@pytest.mark.parametrize("container", ["abc", "a" * 63, "dead-letters-1", "1ab", "payloads2"])
def test_a_legal_container_is_accepted(container: str) -> None:
    stored = subscription(deadLetterDestination=dead_letter(container=container))

    assert subscription_of(stored).dead_letter == DeadLetterDestination(
        account="acct", container=container
    )


@pytest.mark.parametrize(
    "container",
    [
        *("", "ab", "a" * 64, "Dead", "de_ad", "de--ad", "-dead", "dead-", "a.b", "dead\n"),
        *("payloads", "poison", "azure-webjobs-hosts", "azure-webjobs-", "app-package"),
        *("app-package-x", "$root", "$logs", "$web"),
    ],
)
def test_an_illegal_container_or_one_of_ours_is_refused(container: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        subscription(deadLetterDestination=dead_letter(container=container))

    target = "properties.deadLetterDestination.properties.blobContainerName"
    assert targets(caught.value) == [target]


def test_dead_letters_need_account_and_container() -> None:
    with pytest.raises(InvalidDocument) as caught:
        subscription(deadLetterDestination={"endpointType": "StorageBlob"})

    stem = "properties.deadLetterDestination.properties"
    assert targets(caught.value) == [f"{stem}.resourceId", f"{stem}.blobContainerName"]


@pytest.mark.parametrize("value", ["x", [], 0])
def test_a_destination_must_be_an_object(value: object) -> None:
    with pytest.raises(InvalidDocument, match="destination must be an object"):
        subscription(destination=value)


def test_http_is_accepted_where_the_deployment_allows_it() -> None:
    stored = subscription(
        {"properties": {"destination": webhook("http://127.0.0.1:1/")}}, deployment=HTTP_DEPLOYMENT
    )

    assert subscription_of(stored).endpoint_url == "http://127.0.0.1:1/"


@pytest.mark.parametrize("body", [0, [], "x", False])
def test_a_body_must_be_an_object(body: object) -> None:
    with pytest.raises(InvalidDocument, match="must be a JSON object"):
        subscription(body)


def test_all_faults_are_reported_at_once() -> None:
    with pytest.raises(InvalidDocument) as caught:
        subscription(
            name="x",
            destination=webhook("ftp://x", maxEventsPerBatch=0),
            filter={"advancedFilters": [{}], "subjectEndsWith": []},
            retryPolicy={"maxDeliveryAttempts": 0, "eventTimeToLiveInMinutes": 1441},
            deadLetterDestination=dead_letter("other", "$web"),
        )

    assert sorted(str(target).rpartition(".")[2] for target in targets(caught.value)) == [
        *("advancedFilters", "blobContainerName", "endpointUrl", "eventTimeToLiveInMinutes"),
        *("maxDeliveryAttempts", "maxEventsPerBatch", "name", "resourceId", "subjectEndsWith"),
    ]
    assert all(fault.message in caught.value.message for fault in caught.value.faults)
