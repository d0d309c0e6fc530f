"""The names of members: which are known, and what is said of the others."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from azure.mgmt.eventgrid import models

from shared.arm import document_names, member_names
from shared.arm.member_names import FreeNames, Names, Shape, read_names
from shared.errors import InvalidDocument

FIELDS = Names("filter", "labels", "retryPolicy", "endpointType", "id", "key", "tags")


def test_a_name_that_looks_unlike_a_misspelt_one_is_no_fault() -> None:
    assert read_names({"endpointKind": 1}, FIELDS) == {"endpointKind": 1}


def test_a_document_with_many_unknown_names_costs_little(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    monkeypatch.setattr(member_names, "nearest", lambda *arguments: compared.append(arguments))

    document = {f"unknown{number}": 1 for number in range(5_000)}
    assert read_names(document, FIELDS) == document

    assert len(compared) == 1_000


def test_a_member_of_many_spellings_is_one_fault() -> None:
    with pytest.raises(InvalidDocument) as caught:
        read_names({"filter": 1, "Filter": 2, "FILTER": 3, "\u0131d": 4}, FIELDS)

    (fault,) = caught.value.faults
    assert fault.message == "filter is there twice, as 'filter' and as 'Filter'."


def test_some_of_many_repeated_members_are_told() -> None:
    with pytest.raises(InvalidDocument) as caught:
        read_names({"filters": [{"key": 1, "Key": 2}] * 5_000}, Names(filters=FIELDS))

    assert len(caught.value.faults) == 25


@pytest.mark.parametrize("document", [None, 5, "x", [], [[{"Filter": 1}]], {}])
def test_whatever_is_no_object_stays_as_it_is(document: object) -> None:
    assert read_names(document, FIELDS) == document


DOCUMENTS = {
    "Topic": document_names.TOPIC,
    "TopicUpdateParameters": document_names.TOPIC,
    "SystemTopic": document_names.SYSTEM_TOPIC,
    "SystemTopicUpdateParameters": document_names.SYSTEM_TOPIC,
    "EventSubscription": document_names.SUBSCRIPTION,
    "EventSubscriptionUpdateParameters": document_names.SUBSCRIPTION_PATCH,
    "Namespace": document_names.NAMESPACE,
    "NamespaceUpdateParameters": document_names.NAMESPACE,
    "NamespaceTopic": document_names.NAMESPACE_TOPIC,
    "NamespaceTopicUpdateParameters": document_names.NAMESPACE_TOPIC,
    "Subscription": document_names.NAMESPACE_SUBSCRIPTION,
    "SubscriptionUpdateParameters": document_names.NAMESPACE_SUBSCRIPTION,
    "TopicRegenerateKeyRequest": document_names.REGENERATE_KEY,
}
KINDS = dict(inspect.getmembers(models, lambda each: hasattr(each, "_attribute_map")))


def lacking(model: str, shape: Shape) -> Iterator[str]:
    """Yield the members of a model of Microsoft's library that a tree does not have."""
    for member in KINDS[model]._attribute_map.values():
        inner: Shape = shape
        for name in member["key"].split("."):
            if not isinstance(inner, Names):
                break
            if name not in inner.below:
                yield f"{model}: {member['key']}"
                break
            inner = inner.below[name]
        else:
            yield from lacking_below(member["type"].strip("[]{}"), inner)


def lacking_below(model: str, shape: Shape) -> Iterator[str]:
    inner = shape.of if isinstance(shape, FreeNames) else shape
    if inner is not None and model in KINDS:
        subtypes: dict[str, dict[str, Any]] = getattr(KINDS[model], "_subtype_map", None) or {}
        for each in (model, *(name for kinds in subtypes.values() for name in kinds.values())):
            yield from lacking(str(each), inner)


@pytest.mark.parametrize("model", DOCUMENTS)
def test_what_azure_publishes_is_known(model: str) -> None:
    assert not [*lacking(model, DOCUMENTS[model])]
