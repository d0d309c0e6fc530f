"""Where events go, and where dead letters: what of it is accepted."""

from __future__ import annotations

from typing import Any

import pytest

from shared.arm.subscription_codec import to_subscription
from shared.arm.topic_subscription_codec import render_subscription
from shared.errors import InvalidDocument
from shared.subscriptions.subscription import (
    Batching,
    DeadLetterDestination,
)
from tests.unit.arm.documents import (
    HTTP_DEPLOYMENT,
    LATEST,
    dead_letter,
    only_fault,
    subscription,
    targets,
    webhook,
)


@pytest.mark.parametrize("value", ["x", [], 0])
def test_a_destination_must_be_an_object(value: object) -> None:
    with pytest.raises(InvalidDocument, match="destination must be an object"):
        subscription(destination=value)


def test_http_is_accepted_where_the_deployment_allows_it() -> None:
    stored = subscription(
        {"properties": {"destination": webhook("http://127.0.0.1:1/")}}, deployment=HTTP_DEPLOYMENT
    )

    assert to_subscription(stored).endpoint_url == "http://127.0.0.1:1/"


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
            {"destination": webhook(maxEventsPerBatch=5001)},
            "destination.properties.maxEventsPerBatch",
            "between 1 and 5000",
            id="batch out of range",
        ),
        pytest.param(
            {"destination": webhook(maxEventsPerBatch=1, preferredBatchSizeInKilobytes=1025)},
            "destination.properties.preferredBatchSizeInKilobytes",
            "between 1 and 1024",
            id="batch size out of range",
        ),
        pytest.param(
            {"destination": webhook(azureActiveDirectoryTenantId="t")},
            "destination.properties.azureActiveDirectoryTenantId",
            "are not set",
            id="entra tenant",
        ),
        pytest.param(
            {"destination": webhook(azureActiveDirectoryApplicationIdOrUri="a")},
            "destination.properties.azureActiveDirectoryApplicationIdOrUri",
            "are not set",
            id="entra application",
        ),
        pytest.param(
            {"destination": webhook(minimumTlsVersionAllowed="2")},
            "destination.properties.minimumTlsVersionAllowed",
            "it can be",
            id="tls",
        ),
    ],
)
def test_a_bad_destination_is_refused(properties: Any, target: str, words: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        subscription(**properties)

    assert only_fault(caught.value).target == f"properties.{target}"
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("properties", "target", "words"),
    [
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
            "only go to the app's own storage account, not to 'other'",
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
def test_a_bad_dead_letter_destination_is_refused(properties: Any, target: str, words: str) -> None:
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

    assert to_subscription(stored).dead_letter == DeadLetterDestination(container=container)


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


@pytest.mark.parametrize(
    ("knobs", "events", "kilobytes"),
    [
        pytest.param({}, 1, 64, id="nothing"),
        pytest.param(
            {"maxEventsPerBatch": 1, "preferredBatchSizeInKilobytes": 64},
            1,
            64,
            id="what clients send that know nothing of it",
        ),
        pytest.param({"maxEventsPerBatch": 1}, 1, 64, id="an event"),
        pytest.param(
            {"maxEventsPerBatch": 1, "preferredBatchSizeInKilobytes": 1024},
            1,
            1024,
            id="an event, however large a batch",
        ),
        pytest.param({"preferredBatchSizeInKilobytes": 64}, 1, 64, id="the usual size"),
        pytest.param({"preferredBatchSizeInKilobytes": 1}, 10, 1, id="another size"),
        pytest.param({"maxEventsPerBatch": 2}, 2, 64, id="two events"),
        pytest.param(
            {"maxEventsPerBatch": 5000, "preferredBatchSizeInKilobytes": 1024},
            5000,
            1024,
            id="the most there can be",
        ),
    ],
)
def test_batching_is_on_for_more_than_one_event(
    knobs: dict[str, int], events: int, kilobytes: int
) -> None:
    """Contract §2.4: clients always send 1 and 64; only a size means 10 events."""
    stored = subscription(destination=webhook(**knobs))

    answer = render_subscription(stored, LATEST)["properties"]["destination"]["properties"]
    shown = (answer["maxEventsPerBatch"], answer["preferredBatchSizeInKilobytes"])
    assert shown == (events, kilobytes)
    expected = Batching(max_events=events, preferred_kilobytes=kilobytes)
    assert to_subscription(stored).batching == expected
