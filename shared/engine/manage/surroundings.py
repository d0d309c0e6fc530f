"""Answers for the ARM resources around Event Grid's, which ARM clients ask for on their way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.arm.arm_json import answer
from shared.engine.manage.call import Call, ManagePorts
from shared.errors import NotFound
from shared.http import HttpAnswer

_SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"
_TENANT = "00000000-0000-0000-0000-000000000001"
_LOCATION = "local"
_STORAGE = "Microsoft.Storage/storageAccounts"
_TYPES = (
    "topics",
    "topics/eventSubscriptions",
    "eventSubscriptions",
    "namespaces",
    "namespaces/topics",
    "namespaces/topics/eventSubscriptions",
)
_TOPIC_TYPE = "Microsoft.EventGrid.Topics"


def list_subscriptions(ports: ManagePorts, call: Call) -> HttpAnswer:
    """Answer with the one Azure subscription that every login needs."""
    del ports, call
    return answer(200, {"value": [_subscription(_SUBSCRIPTION)]})


def get_subscription(ports: ManagePorts, call: Call) -> HttpAnswer:
    """Answer with the subscription of the path: each exists."""
    del ports
    return answer(200, _subscription(call.names["subscription"]))


def get_group(ports: ManagePorts, call: Call) -> HttpAnswer:
    """Answer with the resource group of the path: each exists, and creating it changes nothing."""
    del ports
    names = call.names
    group = {
        "id": _group_id(names),
        "name": names["group"],
        "type": "Microsoft.Resources/resourceGroups",
        "location": _LOCATION,
        "properties": {"provisioningState": "Succeeded"},
    }
    return answer(200, group)


def list_storage_accounts(ports: ManagePorts, call: Call) -> HttpAnswer:
    """List the deployment's own storage account, which can hold dead letters."""
    return answer(200, {"value": [_storage_account(call.names, ports.deployment.account)]})


def get_storage_account(ports: ManagePorts, call: Call) -> HttpAnswer:
    """
    Answer with the deployment's own storage account.

    Raises:
        NotFound: another one is meant.
    """
    own, asked = ports.deployment.account, call.names["account"]
    if asked.casefold() != own.casefold():
        raise NotFound(f"There is no storage account '{asked}' here; the app's own is '{own}'.")
    return answer(200, _storage_account(call.names, own))


def get_provider(ports: ManagePorts, call: Call) -> HttpAnswer:
    """Answer that the resource provider is registered."""
    del ports
    provider = {
        "id": f"/subscriptions/{call.names['subscription']}/providers/Microsoft.EventGrid",
        "namespace": "Microsoft.EventGrid",
        "registrationState": "Registered",
        "registrationPolicy": "RegistrationRequired",
        "resourceTypes": [
            {"resourceType": each, "locations": [_LOCATION], "apiVersions": ["2025-02-15"]}
            for each in _TYPES
        ],
    }
    return answer(200, provider)


def list_topic_types(ports: ManagePorts, call: Call) -> HttpAnswer:
    """List the one type of topic that event subscriptions have in lists of a scope."""
    del ports, call
    return answer(200, {"value": [_topic_type()]})


def get_topic_type(ports: ManagePorts, call: Call) -> HttpAnswer:
    """
    Answer with a type of topic.

    Raises:
        NotFound: it is not one of custom topics.
    """
    del ports
    _check_topic_type(call)
    return answer(200, _topic_type())


def list_event_types(ports: ManagePorts, call: Call) -> HttpAnswer:
    """List no event types: those of custom topics are their publishers' own."""
    del ports
    _check_topic_type(call)
    return answer(200, {"value": []})


def _check_topic_type(call: Call) -> None:
    asked = call.names["topic_type"]
    if asked.casefold() != _TOPIC_TYPE.casefold():
        raise NotFound(f"There is no topic type '{asked}' here; the only one is '{_TOPIC_TYPE}'.")


def _topic_type() -> dict[str, Any]:
    return {
        "id": f"providers/Microsoft.EventGrid/topicTypes/{_TOPIC_TYPE}",
        "name": _TOPIC_TYPE,
        "type": "Microsoft.EventGrid/topicTypes",
        "properties": {
            "provider": "Microsoft.EventGrid",
            "displayName": "Event Grid Topics",
            "description": "Custom topics.",
            "resourceRegionType": "RegionalResource",
            "provisioningState": "Succeeded",
            "supportedLocations": [_LOCATION],
        },
    }


def _subscription(name: str) -> dict[str, Any]:
    return {
        "id": f"/subscriptions/{name}",
        "subscriptionId": name,
        "tenantId": _TENANT,
        "displayName": "Pushgrid",
        "state": "Enabled",
    }


def _storage_account(names: Mapping[str, str], account: str) -> dict[str, Any]:
    return {
        "id": f"{_group_id(names)}/providers/{_STORAGE}/{account}",
        "name": account,
        "type": _STORAGE,
        "location": _LOCATION,
        "properties": {"provisioningState": "Succeeded"},
    }


def _group_id(names: Mapping[str, str]) -> str:
    return f"/subscriptions/{names['subscription']}/resourceGroups/{names['group']}"
