"""Reads and writes the documents of namespaces and of their topics."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from shared.arm.deployment_capabilities import DeploymentCapabilities, ParentTopic
from shared.arm.network_rules_codec import parse_network_rules, to_networks
from shared.arm.not_included import CUSTOM_DOMAINS, MQTT
from shared.arm.sections import Document, raise_faults, root_section
from shared.arm.stored_types import checked
from shared.arm.tracked_resource import (
    PROVIDER,
    ArmPath,
    check_name,
    parse_resource,
    render_resource,
    render_tracked,
)
from shared.events.topic import InputSchema, Topic, TopicName

KIND = "namespaces"
TYPE = f"{PROVIDER}/{KIND}"
TOPIC_TYPE = f"{TYPE}/topics"
PROFILE = "ns"  # the delivery profile of every topic of a namespace
_SKU = {"name": "Standard", "capacity": 1}
_MIN_DAYS, _MAX_DAYS = 1, 7  # of retention; the maximum is the default


def parse_namespace(
    path: ArmPath,
    body: object,
    deployment: DeploymentCapabilities,
    existing: Document | None = None,
) -> dict[str, Any]:
    """Read the body of a PUT into the document to store."""
    root = root_section(body)
    check_name(root, path.name, "a namespace")
    stored = parse_resource(root, path, deployment, existing)
    properties = root.section("properties")
    mqtt = properties.section("topicSpacesConfiguration")
    enabled = f"The MQTT broker is not supported. {MQTT.sentence}"
    mqtt.choice("state", ("Disabled",), {"Enabled": enabled})
    topics = properties.section("topicsConfiguration")
    topics.refuse_unsupported("customDomains", CUSTOM_DOMAINS.sentence)
    stored["properties"] = {
        **parse_network_rules(properties, deployment),
        "isZoneRedundant": properties.flag("isZoneRedundant") or False,
    }
    raise_faults(root.faults)
    return {"sku": _SKU, **stored}


def render_namespace(stored: Document, public_url: str) -> dict[str, Any]:
    hostname = f"{public_url.partition('://')[2]}/{KIND}/{stored['name']}"
    return render_tracked(stored, KIND, {"topicsConfiguration": {"hostname": hostname}})


def parse_namespace_topic(
    name: TopicName, body: object, namespace: Document, existing: Document | None = None
) -> dict[str, Any]:
    """Read the body of a PUT into the document to store under the stored *namespace*."""
    root = root_section(body)
    check_name(root, name.topic, "a topic")
    properties = root.section("properties")
    properties.choice("publisherType", ("Custom",))
    properties.choice("inputSchema", (InputSchema.CLOUD_EVENTS,))
    days = properties.number("eventRetentionInDays", _MIN_DAYS, _MAX_DAYS)
    raise_faults(root.faults)
    topic = existing["name"] if existing else name.topic
    return {
        "id": f"{namespace['id']}/topics/{topic}",
        "name": topic,
        "namespace": namespace["name"],
        "properties": {
            "publisherType": "Custom",
            "inputSchema": str(InputSchema.CLOUD_EVENTS),
            "eventRetentionInDays": days or _MAX_DAYS,
        },
    }


def render_namespace_topic(stored: Document) -> dict[str, Any]:
    return render_resource(stored, TOPIC_TYPE, stored["properties"])


def to_namespace_topic(stored: Document, namespace: Document) -> Topic:
    """Turn a stored topic into the value that publishing uses; includes its namespace's keys."""
    keys = (*namespace["keys"].values(), *stored["keys"].values())
    value = Topic(
        name=TopicName(stored["namespace"], stored["name"]).joined,
        arm_id=stored["id"],
        input_schema=InputSchema.CLOUD_EVENTS,
        keys=keys,
        profile=PROFILE,
        inbound_rules=to_networks(namespace["properties"]),
        retention=_retention(stored),
    )
    return checked(value)


def to_absent_topic(name: str, namespace: Document | None) -> Topic:
    """
    Return what a publisher must satisfy to be told that the topic *name* does not exist.

    These are the keys and networks of its *namespace*; without one, as for a custom topic, no key
    is valid.
    """
    value = Topic(
        name=name,
        arm_id=name,
        input_schema=InputSchema.CLOUD_EVENTS,
        keys=tuple(namespace["keys"].values()) if namespace else (),
        inbound_rules=to_networks(namespace["properties"]) if namespace else (),
    )
    return checked(value)


def to_namespace_parent_topic(stored: Document, deployment: DeploymentCapabilities) -> ParentTopic:
    """Turn a stored topic into the value that its event subscriptions depend on."""
    return ParentTopic(
        name=TopicName(stored["namespace"], stored["name"]).joined,
        arm_id=stored["id"],
        input_schema=InputSchema.CLOUD_EVENTS,
        profile=deployment.profile(PROFILE),
        retention=_retention(stored),
    )


def _retention(stored: Document) -> timedelta:
    return timedelta(days=stored["properties"]["eventRetentionInDays"])
