"""Stubs of the ARM resources around Event Grid's, which ARM clients read first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from shared.arm.arm_json import answer
from shared.arm.deployment_capabilities import DeploymentCapabilities
from shared.arm.not_included import TOPIC_TYPES
from shared.arm.system_topic_codec import DEPLOYMENT_TYPE, EVENT_TYPES, SOURCE_TYPE
from shared.arm.system_topic_codec import LOCATION as _LOCATION
from shared.engine.manage.call import Call
from shared.errors import NotFound
from shared.events.notices import NoticeKind
from shared.http import HttpAnswer

_SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"
_TENANT = "00000000-0000-0000-0000-000000000001"
_STORAGE = "Microsoft.Storage/storageAccounts"
_TOPIC_TYPES_ID = "providers/Microsoft.EventGrid/topicTypes"
_SUCCEEDED = {"provisioningState": "Succeeded"}
_TYPES = (
    "topics",
    "topics/eventSubscriptions",
    "eventSubscriptions",
    "systemTopics",
    "systemTopics/eventSubscriptions",
    "namespaces",
    "namespaces/topics",
    "namespaces/topics/eventSubscriptions",
)


class _TopicType(NamedTuple):
    """A kind of source, as Event Grid describes it; custom topics have types of their own."""

    name: str
    provider: str
    display_name: str
    description: str
    event_types: Sequence[str] = ()
    event_description: str = ""


_TOPIC_TYPES = (
    _TopicType(
        "Microsoft.EventGrid.Topics", "Microsoft.EventGrid", "Event Grid Topics", "Custom topics."
    ),
    _TopicType(
        SOURCE_TYPE,
        "Microsoft.Storage",
        "Storage Accounts",
        "Microsoft Storage service events.",
        EVENT_TYPES,
        "Raised when a blob is created or deleted.",
    ),
    _TopicType(
        DEPLOYMENT_TYPE,
        "Pushgrid",
        "Pushgrid Deployments",
        "What goes wrong in this deployment.",
        tuple(NoticeKind),
        "Raised at most once a minute for an event subscription.",
    ),
)


def list_subscriptions(call: Call) -> HttpAnswer:
    """Answer with the one Azure subscription that every login needs."""
    del call
    return answer(200, {"value": [_subscription(_SUBSCRIPTION)]})


def get_subscription(call: Call) -> HttpAnswer:
    """Answer with the subscription of the path: each exists."""
    return answer(200, _subscription(call.names["subscription"]))


def get_group(call: Call) -> HttpAnswer:
    """Answer with the resource group of the path: each exists, and creating it changes nothing."""
    return answer(200, _located(_group_id(call.names), "Microsoft.Resources/resourceGroups"))


def list_accounts(deployment: DeploymentCapabilities, call: Call) -> HttpAnswer:
    """List the storage accounts that can hold dead letters, and so be sources."""
    known = deployment.known_accounts
    return answer(200, {"value": [_storage_account(call.names, each) for each in known]})


def get_account(deployment: DeploymentCapabilities, call: Call) -> HttpAnswer:
    asked, known = call.names["account"].casefold(), deployment.known_accounts
    if asked not in known:
        message = f"There is no storage account '{asked}' here; there are: {', '.join(known)}."
        raise NotFound(message)
    return answer(200, _storage_account(call.names, asked))


def get_provider(call: Call) -> HttpAnswer:
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


def list_topic_types(call: Call) -> HttpAnswer:
    """List the types of topics that event subscriptions have in lists of a scope."""
    del call
    return answer(200, {"value": [_topic_type(each) for each in _TOPIC_TYPES]})


def get_topic_type(call: Call) -> HttpAnswer:
    return answer(200, _topic_type(_found_topic_type(call.names["topic_type"])))


def list_event_types(call: Call, topic_type: str = "") -> HttpAnswer:
    """List the event types of a type of topic: the one of the path, unless it is given."""
    of = _found_topic_type(topic_type or call.names["topic_type"])
    kind = "Microsoft.EventGrid/topicTypes/eventTypes"
    described = {"description": of.event_description, "isInDefaultSet": True}
    found = [
        _resource(
            f"{_TOPIC_TYPES_ID}/{of.name}/eventTypes/{each}",
            kind,
            {"displayName": each.rpartition(".")[2], **described},
        )
        for each in of.event_types
    ]
    return answer(200, {"value": found})


def _found_topic_type(asked: str) -> _TopicType:
    for each in _TOPIC_TYPES:
        if asked.casefold() == each.name.casefold():
            return each
    known = ", ".join(each.name for each in _TOPIC_TYPES)
    raise NotFound(
        f"There is no topic type '{asked}' here; there are: {known}. {TOPIC_TYPES.sentence}"
    )


def _topic_type(of: _TopicType) -> dict[str, Any]:
    properties = {
        "provider": of.provider,
        "displayName": of.display_name,
        "description": of.description,
        "resourceRegionType": "RegionalResource",
        "supportedLocations": [_LOCATION],
        **_SUCCEEDED,
    }
    kind = "Microsoft.EventGrid/topicTypes"
    return _resource(f"{_TOPIC_TYPES_ID}/{of.name}", kind, properties)


def _subscription(name: str) -> dict[str, Any]:
    return {
        "id": f"/subscriptions/{name}",
        "subscriptionId": name,
        "tenantId": _TENANT,
        "displayName": "Pushgrid",
        "state": "Enabled",
    }


def _storage_account(names: Mapping[str, str], account: str) -> dict[str, Any]:
    return _located(f"{_group_id(names)}/providers/{_STORAGE}/{account}", _STORAGE)


def _located(arm_id: str, kind: str) -> dict[str, Any]:
    return {**_resource(arm_id, kind, _SUCCEEDED), "location": _LOCATION}


def _resource(arm_id: str, kind: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    name = arm_id.rpartition("/")[2]
    return {"id": arm_id, "name": name, "type": kind, "properties": properties}


def _group_id(names: Mapping[str, str]) -> str:
    return f"/subscriptions/{names['subscription']}/resourceGroups/{names['group']}"
