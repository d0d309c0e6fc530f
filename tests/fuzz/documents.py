"""Valid documents, as full as they can be: what the fuzz tests damage."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.functional.manage.arm_api import (
    CRM,
    GROUP,
    ORDERS,
    SHOP,
    SHOP_CRM,
    SHOP_ORDERS,
    TOPICS,
    URL,
)
from tests.unit.arm.documents import MAPPING, dead_letter, webhook

EXTENSION = f"{ORDERS}/providers/Microsoft.EventGrid/eventSubscriptions/crm"


class Given(NamedTuple):
    """A request that is accepted; without a *document* it has no body."""

    method: str
    path: str
    document: Any = None


_IDENTITY = {"type": "SystemAssigned", "userAssignedIdentity": None}
_DEAD = dead_letter()
_SECRETS = {"value": f"whsec_{'a' * 32} whsec_{'b' * 32}", "isSecret": True}
_DESTINATION = webhook(
    URL,
    maxEventsPerBatch=10,
    preferredBatchSizeInKilobytes=64,
    minimumTlsVersionAllowed="1.2",
    deliveryAttributeMappings=[
        {"name": "x-team", "type": "Static", "properties": {"value": "a", "isSecret": True}},
        {"name": "x-kind", "type": "Dynamic", "properties": {"sourceField": "data.kind"}},
        {"name": "webhook-signature", "type": "Static", "properties": _SECRETS},
    ],
)
_ADVANCED = [
    {"operatorType": "NumberIn", "key": "data.total", "values": [1, 2.5]},
    {"operatorType": "NumberGreaterThan", "key": "data.total", "value": 10},
    {"operatorType": "NumberNotInRange", "key": "data.total", "values": [[1, 2], [5, 9.5]]},
    {"operatorType": "BoolEquals", "key": "data.done", "value": True},
    {"operatorType": "StringContains", "key": "subject", "values": ["a", "b"]},
    {"operatorType": "StringNotBeginsWith", "key": "data.a.b", "values": ["x"]},
    {"operatorType": "IsNullOrUndefined", "key": "data.gone"},
]
_SUBSCRIPTION = {
    "destination": _DESTINATION,
    "filter": {
        "subjectBeginsWith": "/orders",
        "subjectEndsWith": "7",
        "includedEventTypes": ["Shop.OrderPlaced"],
        "isSubjectCaseSensitive": True,
        "enableAdvancedFilteringOnArrays": True,
        "advancedFilters": _ADVANCED,
    },
    "labels": ["a"],
    "expirationTimeUtc": "2030-01-02T03:04:05Z",
    "eventDeliverySchema": "EventGridSchema",
    "retryPolicy": {"maxDeliveryAttempts": 5, "eventTimeToLiveInMinutes": 60},
    "deadLetterDestination": _DEAD,
}
_WRAPPED = {
    "deliveryWithResourceIdentity": {"identity": _IDENTITY, "destination": _DESTINATION},
    "deadLetterWithResourceIdentity": {"identity": _IDENTITY, "deadLetterDestination": _DEAD},
}
_NETWORK = {
    "publicNetworkAccess": "Enabled",
    "inboundIpRules": [{"ipMask": "10.0.0.0/8", "action": "Allow"}],
    "minimumTlsVersionAllowed": "1.2",
}
_TOPIC = {
    "location": "westeurope",
    "tags": {"deliveryProfile": "2023", "a": "b"},
    "identity": {"type": "SystemAssigned"},
    "sku": {"name": "Basic"},
    "kind": "Azure",
    "properties": {
        "inputSchema": "CustomEventSchema",
        "inputSchemaMapping": MAPPING,
        **_NETWORK,
        "disableLocalAuth": False,
        "dataResidencyBoundary": "WithinGeopair",
        "eventTypeInfo": {"kind": "inline", "inlineEventTypes": {"a": {"displayName": "A"}}},
    },
}
_NAMESPACE = {
    "location": "westeurope",
    "tags": {"a": "b"},
    "sku": {"name": "Standard", "capacity": 1},
    "properties": {
        "isZoneRedundant": True,
        **_NETWORK,
    },
}
_NAMESPACE_TOPIC = {
    "properties": {
        "publisherType": "Custom",
        "inputSchema": "CloudEventSchemaV1_0",
        "eventRetentionInDays": 2,
    }
}
_NAMESPACE_SUBSCRIPTION = {
    "eventDeliverySchema": "CloudEventSchemaV1_0",
    "expirationTimeUtc": "2030-01-02T03:04:05Z",
    "tags": {"a": "b"},
    "deliveryConfiguration": {
        "deliveryMode": "Push",
        "push": {
            "maxDeliveryCount": 5,
            "eventTimeToLive": "PT1H",
            "destination": _DESTINATION,
            "deadLetterDestinationWithResourceIdentity": {
                "identity": _IDENTITY,
                "deadLetterDestination": _DEAD,
            },
        },
    },
    "filtersConfiguration": {"includedEventTypes": ["a"], "filters": _ADVANCED},
}

#: Accepted one by one where there are `orders`, `crm`, and the same of the namespace `shop`.
WRITES = (
    Given("PUT", f"{TOPICS}/bills", _TOPIC),
    Given("PUT", CRM, {"properties": _SUBSCRIPTION}),
    Given("PUT", EXTENSION, {"properties": _SUBSCRIPTION}),
    Given("PUT", f"{ORDERS}/eventSubscriptions/wrapped", {"properties": _WRAPPED}),
    Given("PUT", f"{GROUP}/namespaces/other", _NAMESPACE),
    Given("PUT", f"{SHOP}/topics/bills", _NAMESPACE_TOPIC),
    Given("PUT", SHOP_CRM, {"properties": _NAMESPACE_SUBSCRIPTION}),
    Given("PATCH", ORDERS, {"tags": {"a": "b"}, "properties": {"disableLocalAuth": True}}),
    Given("PATCH", CRM, _SUBSCRIPTION),
    Given("PATCH", SHOP, {"tags": {"a": "b"}, "properties": {"isZoneRedundant": True}}),
    Given("PATCH", SHOP_ORDERS, {"properties": {"eventRetentionInDays": 3}}),
    Given("PATCH", SHOP_CRM, {"properties": _NAMESPACE_SUBSCRIPTION}),
    Given("POST", f"{ORDERS}/regenerateKey", {"keyName": "key1"}),
    Given("POST", f"{SHOP}/regenerateKey", {"keyName": "key2"}),
    Given("POST", f"{SHOP_ORDERS}/regenerateKey", {"keyName": "key1"}),
    Given("POST", f"{TOPICS}/bills/whatIf", _TOPIC),
    Given("POST", f"{CRM}/whatIf", {"properties": _SUBSCRIPTION}),
)
_PROVIDER = "/providers/Microsoft.EventGrid"
OTHERS = (
    *(Given("GET", path) for path in (ORDERS, CRM, EXTENSION, SHOP, SHOP_ORDERS, SHOP_CRM)),
    *(Given("GET", path) for path in (TOPICS, f"{GROUP}/namespaces", f"{SHOP}/topics")),
    *(Given("GET", f"/subscriptions/s1{_PROVIDER}/{kind}") for kind in ("topics", "namespaces")),
    *(Given("GET", f"{path}/eventSubscriptions") for path in (ORDERS, SHOP_ORDERS, GROUP)),
    Given("GET", f"/subscriptions/s1{_PROVIDER}/locations/westeurope/eventSubscriptions"),
    Given("GET", f"{ORDERS}/providers/Microsoft.Insights/metrics"),
    *(Given("DELETE", path) for path in (ORDERS, CRM, EXTENSION, SHOP, SHOP_ORDERS, SHOP_CRM)),
    *(Given("POST", f"{path}/listKeys") for path in (ORDERS, SHOP, SHOP_ORDERS)),
    *(Given("POST", f"{path}/getFullUrl") for path in (CRM, EXTENSION, SHOP_CRM)),
    *(Given("POST", f"{path}/getDeliveryAttributes") for path in (CRM, EXTENSION, SHOP_CRM)),
)

#: What topics of other schemas are made with.
CLOUD_TOPIC = {"inputSchema": "CloudEventSchemaV1_0"}
CUSTOM_TOPIC = {"inputSchema": "CustomEventSchema", "inputSchemaMapping": MAPPING}
EVENT = {
    "id": "e-1",
    "topic": ORDERS,
    "subject": "/orders/17",
    "eventType": "Shop.OrderPlaced",
    "eventTime": "2026-02-09T12:00:00Z",
    "data": {"total": 12.5, "done": True, "kind": "k", "a": {"b": ["x", 1, None]}},
    "dataVersion": "1.0",
    "metadataVersion": "1",
}
CLOUD_EVENT = {
    "specversion": "1.0",
    "id": "c-1",
    "source": "/shop",
    "type": "a",
    "subject": "/orders/17",
    "time": "2026-02-09T12:00:00Z",
    "dataschema": "https://shop.example/order",
    "datacontenttype": "application/json",
    "data": {"total": 12.5, "done": True, "kind": "k"},
    "team": "a",
}
CUSTOM_EVENT = {"key": "k-1", "kind": "Shop.OrderPlaced", "path": "/a", "total": 1, "deep": [{}]}
