"""Topics: ARM requests to stored documents, and those to ARM answers and to the data plane."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from shared.events.topic import InputSchema, Topic
from shared.subscriptions.deployment import Deployment
from shared.subscriptions.mapping_codec import mapping_of, parse_mapping
from shared.subscriptions.sections import TLS_VERSIONS, Section, document, raise_faults

TYPE = "Microsoft.EventGrid/topics"
_PROFILE_TAG = "deliveryProfile".casefold()  # tags have no case
_NAME = re.compile(r"[A-Za-z0-9-]{3,50}")
_RESERVED = ("microsoft", "eventgrid", "system")
_SUBSCRIPTION = re.compile(r"[A-Za-z0-9-]{1,64}")
_GROUP = re.compile(r"[A-Za-z0-9_.()-]{0,89}[A-Za-z0-9_()-]")  # no full stop at the end
_KEPT = ("identity", "kind", "sku")  # say nothing here, but clients expect them back
_MAX_TAGS, _MAX_TAG_NAME, _MAX_TAG = 50, 512, 256


class TopicPath(NamedTuple):
    """Where a topic is: the names in its ARM id."""

    subscription: str
    group: str
    name: str

    @property
    def arm_id(self) -> str:
        return (
            f"/subscriptions/{self.subscription}/resourceGroups/{self.group}"
            f"/providers/{TYPE}/{self.name}"
        )


class TopicSecrets(NamedTuple):
    """What a new topic is given; called at creation only."""

    new_key: Callable[[], str]
    new_id: Callable[[], str]


def parse_topic(
    path: TopicPath,
    body: object,
    deployment: Deployment,
    secrets: TopicSecrets,
    existing: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """
    Read the body of a PUT into the document to store.

    An *existing* topic keeps its id, its keys and its input schema.

    Raises:
        InvalidDocument: all faults at once.
    """
    root = document(body)
    _check_path(root, path)
    properties = root.section("properties")
    stored: dict[str, Any] = {
        "id": existing["id"] if existing else path.arm_id,
        "name": existing["name"] if existing else path.name,
        "location": root.text("location") or "global",
        "tags": _tags(root, deployment),
        **{name: root.members[name] for name in _KEPT if root.has(name)},
        "properties": _properties(properties),
    }
    input_schema = stored["properties"]["inputSchema"]
    if existing and input_schema != existing["properties"]["inputSchema"]:
        was = existing["properties"]["inputSchema"]
        properties.refuse(
            "inputSchema",
            f"The input schema of the topic is {was}; it can't be changed to {input_schema}.",
        )
    elif existing and _mapping(stored) != _mapping(existing):
        properties.refuse("inputSchemaMapping", "The input mapping of a topic can't be changed.")
    raise_faults(root.faults)
    stored["metricResourceId"] = existing["metricResourceId"] if existing else secrets.new_id()
    stored["keys"] = (
        existing["keys"] if existing else {"key1": secrets.new_key(), "key2": secrets.new_key()}
    )
    return stored


def render_topic(stored: Mapping[str, Any], public_url: str) -> dict[str, Any]:
    """Write a stored topic as ARM does. Its keys are never part of it."""
    properties = stored["properties"]
    return {
        "id": stored["id"],
        "name": stored["name"],
        "type": TYPE,
        "location": stored["location"],
        "tags": stored["tags"],
        **{name: stored[name] for name in _KEPT if name in stored},
        "systemData": None,
        "properties": {
            **properties,
            "provisioningState": "Succeeded",
            "endpoint": f"{public_url}/topics/{stored['name']}/api/events",
            "metricResourceId": stored["metricResourceId"],
        },
    }


def topic_of(stored: Mapping[str, Any]) -> Topic:
    """Read a stored topic as the data plane sees it."""
    return Topic(
        name=stored["name"],
        arm_id=stored["id"],
        input_schema=InputSchema(stored["properties"]["inputSchema"]),
        key1=stored["keys"]["key1"],
        key2=stored["keys"]["key2"],
        profile=profile_tag(stored),
        mapping=mapping_of(stored["properties"].get("inputSchemaMapping")),
    )


def profile_tag(stored: Mapping[str, Any]) -> str | None:
    """Return the delivery profile that a stored topic asks for; ``None``: the deployment's."""
    tags = {name.casefold(): value for name, value in (stored["tags"] or {}).items()}
    return tags.get(_PROFILE_TAG)


def _mapping(stored: Mapping[str, Any]) -> Any:
    return stored["properties"].get("inputSchemaMapping")


def is_topic_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def _check_path(root: Section, path: TopicPath) -> None:
    if not _SUBSCRIPTION.fullmatch(path.subscription):
        root.refuse("id", "The subscription id must be 1-64 letters, digits and hyphens.")
    if not _GROUP.fullmatch(path.group):
        root.refuse(
            "id",
            "The resource group must be 1-90 letters, digits, '_', '-', '.', '(' and ')', "
            "without '.' at its end.",
        )
    if not is_topic_name(path.name):
        root.refuse("name", "The name of a topic must be 3-50 letters, digits and hyphens.")
    if path.name.casefold().startswith(_RESERVED):
        root.refuse(
            "name", "The name of a topic can't begin with 'Microsoft', 'EventGrid' or 'System'."
        )


def _tags(root: Section, deployment: Deployment) -> Mapping[str, str] | None:
    tags = root.section("tags")
    if len(tags.members) > _MAX_TAGS:
        root.refuse("tags", f"A resource can have {_MAX_TAGS} tags.")
    for name, value in tags.members.items():
        if not isinstance(value, str) or len(value) > _MAX_TAG:
            tags.refuse(name, f"A tag must be a string of at most {_MAX_TAG} characters.")
        elif not 0 < len(name) <= _MAX_TAG_NAME:
            root.refuse("tags", f"The name of a tag must be 1-{_MAX_TAG_NAME} characters long.")
        elif name.casefold() == _PROFILE_TAG:
            _check_profile(tags, name, value, deployment)
    return tags.members or None


def _check_profile(tags: Section, name: str, value: str, deployment: Deployment) -> None:
    if value not in deployment.profiles:
        known = ", ".join(sorted(deployment.profiles))
        tags.refuse(name, f"There is no delivery profile '{value}'; there are: {known}.")


def _properties(section: Section) -> dict[str, Any]:
    schema = section.choice("inputSchema", tuple(InputSchema)) or InputSchema.EVENT_GRID
    mapping = parse_mapping(section, is_custom=schema == InputSchema.CUSTOM)
    section.refuse_unsupported("inboundIpRules")
    access = section.choice("publicNetworkAccess", ("Enabled", "Disabled"))
    if access == "Disabled":
        section.refuse("publicNetworkAccess", "publicNetworkAccess 'Disabled' is not supported.")
    if section.flag("disableLocalAuth"):
        section.refuse("disableLocalAuth", "disableLocalAuth true is not supported.")
    properties: dict[str, Any] = {
        "inputSchema": str(schema),
        "publicNetworkAccess": "Enabled",
        "disableLocalAuth": False,
    }
    kept = {
        "inputSchemaMapping": mapping,
        "minimumTlsVersionAllowed": section.choice("minimumTlsVersionAllowed", TLS_VERSIONS),
        "dataResidencyBoundary": section.text("dataResidencyBoundary"),
        "eventTypeInfo": section.section("eventTypeInfo").members or None,
    }
    return properties | {name: value for name, value in kept.items() if value is not None}
