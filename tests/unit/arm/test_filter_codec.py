"""Advanced filters in documents: what is refused, and how they read back."""

from __future__ import annotations

from typing import Any

import pytest

from shared.arm.topic_subscription_codec import render_subscription
from shared.errors import InvalidDocument
from tests.unit.arm.documents import LATEST, subscription, topic


def refusals(*filters: Any, of: dict[str, Any] | None = None) -> list[tuple[str | None, str]]:
    with pytest.raises(InvalidDocument) as caught:
        subscription(filter={"advancedFilters": list(filters)}, of=of)
    return [
        (str(fault.target).removeprefix("properties.filter.advancedFilters"), fault.message)
        for fault in caught.value.faults
    ]


def one(operator: str = "StringIn", key: object = "data.a", **members: Any) -> dict[str, Any]:
    return {"operatorType": operator, "key": key, **members}


@pytest.mark.parametrize(
    ("document", "target", "words"),
    [
        pytest.param({"key": "data.a"}, "[0].operatorType", "is missing", id="no operator"),
        pytest.param(one("StringIs"), "[0].operatorType", "it can be: NumberIn,", id="unknown"),
        pytest.param(one(values=[]), "[0].values", "must be a list of strings", id="no values"),
        pytest.param(one(values=[]), "[0].values", "at least one", id="empty list"),
        pytest.param(
            one("NumberNotInRange", values=[[1, 2], [10, 1]]),
            "[0].values",
            "the smaller number first: [[1, 10]]",
            id="reversed range",
        ),
        pytest.param(one(), "[0].values", "must be a list of strings", id="missing values"),
        pytest.param(one(values="a"), "[0].values", "must be a list of strings", id="no list"),
        pytest.param(one(values=[1]), "[0].values", "must be a list of strings", id="numbers"),
        pytest.param(one(values=["x" * 513]), "[0].values", "512 characters", id="too long"),
        pytest.param(one("NumberIn", values=["1"]), "[0].values", "list of numbers", id="texts"),
        pytest.param(one("NumberIn", values=[True]), "[0].values", "list of numbers", id="flags"),
        pytest.param(one("NumberLessThan", values=[1]), "[0].value", "a number", id="values"),
        pytest.param(one("NumberLessThan", value=10**400), "[0].value", "a number", id="too large"),
        pytest.param(
            one("NumberInRange", values=[[1, 2], [3]]), "[0].values", "pairs", id="half a range"
        ),
        pytest.param(one("NumberInRange", values=[1, 2]), "[0].values", "pairs", id="no ranges"),
        pytest.param(one("BoolEquals", value="true"), "[0].value", "true or false", id="a text"),
        pytest.param(one(key="", values=["a"]), "[0].key", "is not a key", id="empty key"),
        pytest.param(one(key="data.", values=["a"]), "[0].key", "is not a key", id="empty name"),
        pytest.param(one(key="data..b", values=["a"]), "[0].key", "is not a key", id="gap"),
        pytest.param(one(key="subject.a", values=["a"]), "[0].key", "is not a key", id="in a text"),
        pytest.param(one(key="source", values=["a"]), "[0].key", "eventtype", id="other schema's"),
        pytest.param(one(key=1, values=["a"]), "[0].key", "must be a string", id="no text"),
    ],
)
def test_a_bad_filter_is_refused(document: dict[str, Any], target: str, words: str) -> None:
    ((found, message),) = refusals(document)

    assert (found, words in message) == (target, True), message


def test_filters_and_values_have_their_numbers() -> None:
    short = {"key": "data.a", "operatorType": "IsNotNull"}
    values = [one(values=["a"] * 24), one("BoolEquals", value=True), one("IsNotNull")]

    subscription(filter={"advancedFilters": [short] * 25})
    subscription(filter={"advancedFilters": values})

    assert "at most 25 advanced filters" in refusals(*[short] * 26)[0][1]
    assert "at most 25 values, not 26" in refusals(*values, one(values=["b"]))[0][1]


def test_cloud_events_have_keys_of_their_own() -> None:
    of = topic(inputSchema="CloudEventSchemaV1_0")

    for key in ("source", "Type", "specversion", "subject", "anextension", "data.x"):
        subscription(of=of, filter={"advancedFilters": [one(key=key, values=["a"])]})

    assert refusals(one(key="source.a", values=["a"]), of=of)[0][0] == "[0].key"


def test_a_range_may_be_one_number() -> None:
    subscription(filter={"advancedFilters": [one("NumberInRange", values=[[1, 1]])]})


def test_filters_read_back_with_numbers_as_doubles() -> None:
    given = [
        one("numbergreaterthan", value=10),
        one("NumberInRange", values=[[1, 2]]),
        one("NumberIn", values=[3]),
        one(values=["Aß"]),
        one("BoolEquals", value=False),
        one("IsNotNull", values=["ignored"]),
    ]

    answer = render_subscription(subscription(filter={"advancedFilters": given}), LATEST)

    assert repr(answer["properties"]["filter"]["advancedFilters"]) == repr(
        [
            one("NumberGreaterThan", value=10.0),
            one("NumberInRange", values=[[1.0, 2.0]]),
            one("NumberIn", values=[3.0]),
            one(values=["Aß"]),
            one("BoolEquals", value=False),
            one("IsNotNull"),
        ]
    )
