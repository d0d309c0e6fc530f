"""What is refused of an event subscription, and how."""

from __future__ import annotations

from typing import Any

import pytest

from shared.errors import InvalidDocument
from tests.unit.arm.documents import (
    dead_letter,
    only_fault,
    subscription,
    targets,
    webhook,
)


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
        pytest.param(
            {"filter": {"advancedFilters": [{"operatorType": "IsNotNull"}]}},
            "filter.advancedFilters[0].key",
            "missing",
            id="advanced filter without a key",
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
            {"expirationTimeUtc": "2026-02-09T12:00:00Z"},
            "expirationTimeUtc",
            "Invalid expiration time.",
            id="expires now",
        ),
        pytest.param(
            {"expirationTimeUtc": "tomorrow"},
            "expirationTimeUtc",
            "ISO 8601",
            id="expires at no time",
        ),
        pytest.param(
            {"expirationTimeUtc": "9999-12-31T23:59:59-01:00"},
            "expirationTimeUtc",
            "ISO 8601",
            id="expires too late",
        ),
        pytest.param(
            {"deadLetterWithResourceIdentity": {"identity": {}}},
            "deadLetterWithResourceIdentity.identity.type",
            "is missing",
            id="dead letters by no identity",
        ),
        pytest.param(
            {
                "destination": None,
                "deliveryWithResourceIdentity": {"identity": {"type": "SystemAssigned"}},
            },
            "deliveryWithResourceIdentity.destination",
            "The destination is missing",
            id="delivery by identity to nowhere",
        ),
        pytest.param(
            {
                "deliveryWithResourceIdentity": {
                    "identity": {"type": "SystemAssigned"},
                    "destination": webhook(),
                },
            },
            "deliveryWithResourceIdentity",
            "exclude each other",
            id="two destinations",
        ),
        pytest.param(
            {"eventDeliverySchema": "Xml"}, "eventDeliverySchema", "it can be", id="schema"
        ),
    ],
)
def test_a_bad_subscription_is_refused(properties: Any, target: str, words: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        subscription(**properties)

    assert only_fault(caught.value).target == f"properties.{target}"
    assert words in caught.value.message


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
        *("blobContainerName", "endpointUrl", "eventTimeToLiveInMinutes", "key"),
        *("maxDeliveryAttempts", "maxEventsPerBatch", "name", "operatorType"),
        *("resourceId", "subjectEndsWith"),
    ]
    assert all(fault.message in caught.value.message for fault in caught.value.faults)
