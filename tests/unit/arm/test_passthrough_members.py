"""Passthrough members are validated: the official client must be able to read them back."""

from __future__ import annotations

from typing import Any

import pytest
from azure.mgmt.eventgrid import models
from hypothesis import given
from hypothesis import strategies as st

from shared.arm.namespace_codec import parse_namespace, render_namespace
from shared.arm.topic_codec import render_topic
from shared.errors import InvalidDocument
from tests.strategies import json_values
from tests.unit.arm.documents import DEPLOYMENT, only_fault, topic
from tests.unit.arm.test_namespace_codec_laws import PATH

GROUP = "/subscriptions/s1/resourceGroups/rg"
USER = f"{GROUP}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/u"
IDENTITY = {
    "type": "SystemAssigned, UserAssigned",
    "principalId": "p",
    "tenantId": "t",
    "userAssignedIdentities": {USER: {"principalId": "p", "clientId": "c"}},
}
EVENT_TYPES = {
    "kind": "Inline",
    "inlineEventTypes": {"Shop.Placed": {"description": "d", "displayName": "n"}},
}


def namespace(body: object) -> dict[str, Any]:
    return parse_namespace(PATH, body, DEPLOYMENT, lambda: "key")


def test_documented_members_are_given_back() -> None:
    body = {
        "identity": IDENTITY,
        "sku": {"name": "premium"},
        "kind": "azure",
        "properties": {"eventTypeInfo": EVENT_TYPES, "dataResidencyBoundary": "withinregion"},
    }

    answer = render_topic(topic(body), "https://x")

    assert answer["identity"] == IDENTITY
    assert (answer["sku"], answer["kind"]) == ({"name": "Premium"}, "Azure")
    assert answer["properties"]["eventTypeInfo"] == EVENT_TYPES
    assert answer["properties"]["dataResidencyBoundary"] == "WithinRegion"


def test_a_user_that_is_only_named_is_kept() -> None:
    answer = render_topic(topic({"identity": {"userAssignedIdentities": {USER: None}}}), "")

    assert answer["identity"] == {"userAssignedIdentities": {USER: {}}}


@pytest.mark.parametrize("given", ["SystemAssigned,UserAssigned", "systemassigned, userassigned"])
def test_both_kinds_of_identity_are_written_as_azure_does(given: str) -> None:
    answer = render_topic(topic({"identity": {"type": given}}), "")

    assert answer["identity"] == {"type": "SystemAssigned, UserAssigned"}


@pytest.mark.parametrize(
    ("body", "targets"),
    [
        ({"identity": "SystemAssigned"}, ["identity"]),
        ({"identity": {"type": "Sometimes"}}, ["identity.type"]),
        ({"identity": {"userAssignedIdentities": [USER]}}, ["identity.userAssignedIdentities"]),
        (
            {"identity": {"userAssignedIdentities": {USER: 1}}},
            [f"identity.userAssignedIdentities.{USER}"],
        ),
        ({"sku": []}, ["sku"]),
        ({"sku": {"name": {}, "capacity": "1"}}, ["sku.name", "sku.capacity"]),
        ({"kind": {}}, ["kind"]),
        ({"properties": {"eventTypeInfo": {"kind": 1}}}, ["properties.eventTypeInfo.kind"]),
        ({"properties": {"dataResidencyBoundary": "x"}}, ["properties.dataResidencyBoundary"]),
        ({"identity": 1, "sku": 1, "kind": 1, "tags": 1}, ["tags", "identity", "kind", "sku"]),
    ],
)
def test_another_shape_is_refused_with_all_faults(body: dict[str, Any], targets: list[str]) -> None:
    with pytest.raises(InvalidDocument) as refused:
        topic(body)

    assert [fault.target for fault in refused.value.faults] == targets


@pytest.mark.parametrize("kind", ["AzureArc", "azurearc"])
@pytest.mark.parametrize("read", ["topic", "namespace"])
def test_the_kind_azure_arc_is_refused(kind: str, read: str) -> None:
    with pytest.raises(InvalidDocument) as refused:
        {"topic": topic, "namespace": namespace}[read]({"kind": kind})

    fault = only_fault(refused.value)
    assert (fault.code, fault.target) == ("InvalidRequest", "kind")
    assert fault.message == "The kind AzureArc is not supported; the only kind is Azure."


@given(
    st.sampled_from(["identity", "sku", "kind", "location", "tags", "properties"]),
    json_values
    | st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(
            [
                *("type", "principalId", "userAssignedIdentities", "name", "capacity"),
                *("eventTypeInfo", "dataResidencyBoundary", "isZoneRedundant", "inboundIpRules"),
            ],
            json_values,
        ),
    ),
)
def test_whatever_is_accepted_the_client_can_read(member: str, value: object) -> None:
    for read, render, model in (
        (topic, render_topic, models.Topic),
        (namespace, render_namespace, models.Namespace),
    ):
        try:
            stored = read({member: value})
        except InvalidDocument:
            continue
        assert model.deserialize(render(stored, "https://x")).name == stored["name"]
