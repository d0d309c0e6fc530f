"""Reads and writes the documents of custom topics, and the mapping of their custom events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shared.arm.deployment_capabilities import DeploymentCapabilities, ParentTopic
from shared.arm.network_rules_codec import parse_network_rules, to_networks
from shared.arm.sections import Document, Section, raise_faults, root_section
from shared.arm.stored_types import checked
from shared.arm.tracked_resource import (
    PROFILE_TAG,
    PROVIDER,
    ArmPath,
    check_name,
    parse_passthrough_properties,
    parse_resource,
    render_tracked,
)
from shared.events.topic import FieldMapping, InputSchema, Topic

KIND = "topics"
TYPE = f"{PROVIDER}/{KIND}"
_WITHOUT_DEFAULT = ("id", "topic", "eventTime")
_WITH_DEFAULT = ("eventType", "subject", "dataVersion")


def parse_topic(
    path: ArmPath,
    body: object,
    deployment: DeploymentCapabilities,
    new_id: Callable[[], str],
    existing: Document | None = None,
) -> dict[str, Any]:
    """
    Read the body of a PUT into the document to store.

    An *existing* topic keeps its ids, and can't change its input schema.
    """
    root = root_section(body)
    check_name(root, path.name, "a topic")
    properties = root.section("properties")
    stored = parse_resource(root, path, deployment, existing)
    stored["properties"] = _properties(properties, deployment)
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
    stored["metricResourceId"] = existing["metricResourceId"] if existing else new_id()
    return stored


def render_topic(stored: Document, public_url: str) -> dict[str, Any]:
    """Write a stored topic for an ARM answer, without its keys."""
    endpoint = f"{public_url}/topics/{stored['name']}/api/events"
    added = {"endpoint": endpoint, "metricResourceId": stored["metricResourceId"]}
    return render_tracked(stored, KIND, added)


def to_topic(stored: Document) -> Topic:
    """Turn a stored topic into the value that the data plane uses."""
    properties = stored["properties"]
    value = Topic(
        name=stored["name"],
        arm_id=stored["id"],
        input_schema=InputSchema(properties["inputSchema"]),
        keys=(stored["keys"]["key1"], stored["keys"]["key2"]),
        profile=profile_tag(stored),
        mapping=to_mapping(properties.get("inputSchemaMapping")),
        disable_local_auth=properties.get("disableLocalAuth", False),
        inbound_rules=to_networks(properties),
    )
    return checked(value)


def to_parent_topic(stored: Document, deployment: DeploymentCapabilities) -> ParentTopic:
    """Turn a stored topic into the value that its event subscriptions depend on."""
    return ParentTopic(
        name=stored["name"],
        arm_id=stored["id"],
        input_schema=InputSchema(stored["properties"]["inputSchema"]),
        profile=deployment.profile(profile_tag(stored)),
    )


def profile_tag(stored: Document) -> str | None:
    """Return the delivery profile in a stored topic's tags; ``None``: the deployment's default."""
    tags = {name.casefold(): value for name, value in (stored["tags"] or {}).items()}
    return tags.get(PROFILE_TAG)


def _mapping(stored: Document) -> Any:
    return stored["properties"].get("inputSchemaMapping")


def _properties(section: Section, deployment: DeploymentCapabilities) -> dict[str, Any]:
    schema = section.choice("inputSchema", tuple(InputSchema)) or InputSchema.EVENT_GRID
    mapping = parse_mapping(section, is_custom=schema == InputSchema.CUSTOM)
    properties: dict[str, Any] = {
        "inputSchema": str(schema),
        **parse_network_rules(section, deployment),
        "disableLocalAuth": section.flag("disableLocalAuth") or False,
        **parse_passthrough_properties(section),
    }
    if mapping is not None:
        properties["inputSchemaMapping"] = mapping
    return properties


def parse_mapping(properties: Section, *, is_custom: bool) -> dict[str, Any] | None:
    """Read the mapping, which the custom schema requires and the other schemas forbid."""
    name = "inputSchemaMapping"
    if not is_custom:
        if properties.has(name):
            properties.refuse(name, f"{name} is for the input schema CustomEventSchema only.")
        return None
    if not properties.has(name):
        properties.refuse(name, f"The input schema CustomEventSchema requires {name}.")
        return None
    section = properties.section(name)
    kind = section.required_choice("inputSchemaMappingType", ("Json",))
    fields = section.section("properties")
    stored = {
        each: _parse_field(fields.section(each), has_default=each in _WITH_DEFAULT)
        for each in (*_WITHOUT_DEFAULT, *_WITH_DEFAULT)
        if fields.has(each)
    }
    return {"inputSchemaMappingType": kind, "properties": stored}


def to_mapping(stored: Document | None) -> dict[str, FieldMapping]:
    fields = stored["properties"] if stored else {}
    return {
        name: FieldMapping(field["sourceField"], field.get("defaultValue"))
        for name, field in fields.items()
    }


def _parse_field(section: Section, *, has_default: bool) -> dict[str, str | None]:
    stored = {"sourceField": section.text("sourceField") or None}
    if has_default:
        stored["defaultValue"] = section.text("defaultValue")
    elif section.has("defaultValue"):
        section.refuse("defaultValue", f"{section.path} can't have a default value.")
    return stored
