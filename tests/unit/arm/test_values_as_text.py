"""Values that people write as text: flags, whole numbers, and empty texts for what is not given."""

from __future__ import annotations

from typing import Any

import pytest

from shared.arm.topic_subscription_codec import NESTED
from tests.unit.arm.documents import (
    dead_letter,
    namespace,
    rendered,
    subscription,
    topic,
    webhook,
    with_member,
)


@pytest.mark.parametrize("text", ["true", "True", "TRUE"])
def test_a_flag_may_be_text(text: str) -> None:
    """Source: Microsoft's page "Azure Event Grid subscription schema"."""
    read = rendered(subscription(filter={"isSubjectCaseSensitive": text}))["filter"]

    assert read["isSubjectCaseSensitive"] is True
    assert topic(disableLocalAuth=text)["properties"]["disableLocalAuth"] is True
    assert topic(disableLocalAuth="False")["properties"]["disableLocalAuth"] is False


@pytest.mark.parametrize("text", ["5", "05", "+5"])
def test_a_whole_number_may_be_text(text: str) -> None:
    read = rendered(
        subscription(
            retryPolicy={"maxDeliveryAttempts": text, "eventTimeToLiveInMinutes": text},
            destination=webhook(maxEventsPerBatch=text),
        )
    )

    assert read["retryPolicy"] == {"maxDeliveryAttempts": 5, "eventTimeToLiveInMinutes": 5}
    assert read["destination"]["properties"]["maxEventsPerBatch"] == 5


def test_a_text_stays_one() -> None:
    advanced = {"operatorType": "StringIn", "key": "data.k", "values": ["5", "true", ""]}
    headers = [{"name": "x-n", "type": "Static", "properties": {"value": "5", "isSecret": "false"}}]
    stored = subscription(
        destination=webhook(deliveryAttributeMappings=headers),
        labels=["5"],
        filter={"subjectBeginsWith": "5", "advancedFilters": [advanced]},
    )

    read = rendered(stored)
    assert read["filter"]["advancedFilters"] == [advanced]
    assert read["filter"]["subjectBeginsWith"] == "5"
    assert read["labels"] == ["5"]
    found = read["destination"]["properties"]["deliveryAttributeMappings"]
    assert found == [
        {"name": "x-n", "type": "Static", "properties": {"value": "5", "isSecret": False}}
    ]


OPTIONAL = (
    "expirationTimeUtc",
    "eventDeliverySchema",
    "labels",
    "filter",
    "filter.includedEventTypes",
    "filter.isSubjectCaseSensitive",
    "filter.advancedFilters",
    "retryPolicy",
    "retryPolicy.maxDeliveryAttempts",
    "retryPolicy.eventTimeToLiveInMinutes",
    "deadLetterWithResourceIdentity",
    "deliveryWithResourceIdentity",
    "destination.properties.maxEventsPerBatch",
    "destination.properties.minimumTlsVersionAllowed",
    "destination.properties.azureActiveDirectoryTenantId",
    "destination.properties.deliveryAttributeMappings",
)


@pytest.mark.parametrize("path", OPTIONAL)
def test_an_empty_text_is_none(path: str) -> None:
    assert subscription(**with_member(path, "")) == subscription(**with_member(path, None))


def test_an_empty_text_is_no_dead_letter_destination() -> None:
    assert subscription(deadLetterDestination="") == subscription()


def patched(stored: dict[str, Any], **members: Any) -> dict[str, Any]:
    return subscription(NESTED.patched(stored, members), existing=stored)


def test_an_empty_text_in_a_patch_is_null() -> None:
    identity = {"type": "SystemAssigned"}
    wrapped = {"identity": identity, "destination": webhook()}
    stored = subscription(
        {
            "properties": {
                "deliveryWithResourceIdentity": wrapped,
                "deadLetterDestination": dead_letter(),
            }
        }
    )
    stored["properties"]["expirationTimeUtc"] = "2099-01-01T00:00:00Z"

    for name in ("expirationTimeUtc", "deadLetterDestination", "destination", "retryPolicy"):
        assert patched(stored, **{name: ""}) == patched(stored, **{name: None})


def test_empty_texts_of_topics_and_namespaces_are_none() -> None:
    nothing = {
        "inputSchema": "",
        "inputSchemaMapping": "",
        "publicNetworkAccess": "",
        "inboundIpRules": "",
        "disableLocalAuth": "",
        "minimumTlsVersionAllowed": "",
        "dataResidencyBoundary": "",
        "eventTypeInfo": "",
    }
    beside = {"location": "x", "tags": "", "identity": "", "sku": "", "kind": ""}

    assert topic({"properties": nothing, **beside}) == topic({"location": "x"})
    assert namespace({"properties": "", **beside}) == namespace({"location": "x"})
