"""Reads and writes sources of events (storage accounts, the deployment), and system topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from shared.arm.deployment_capabilities import DeploymentCapabilities, ParentTopic
from shared.arm.not_included import TOPIC_TYPES
from shared.arm.sections import Document, Section, raise_faults, root_section
from shared.arm.stored_types import checked
from shared.arm.topic_codec import profile_tag
from shared.arm.tracked_resource import (
    ACCOUNT_ID,
    DEPLOYMENT_ID,
    PROVIDER,
    ArmPath,
    account_of,
    check_name,
    parse_resource,
)
from shared.events.topic import DEPLOYMENT, InputSchema, SourceTopic, Topic

KIND = "systemTopics"
TYPE = f"{PROVIDER}/{KIND}"
SOURCE_TYPE = "Microsoft.Storage.StorageAccounts"
DEPLOYMENT_TYPE = "Pushgrid.Deployments"
EVENT_TYPES = ("Microsoft.Storage.BlobCreated", "Microsoft.Storage.BlobDeleted")
LOCATION = "local"  # of a storage account: its own is not known
_LONGEST = 128  # characters of a system topic's name


def parse_system_topic(
    path: ArmPath,
    body: object,
    deployment: DeploymentCapabilities,
    new_id: Callable[[], str],
    existing: Document | None = None,
) -> dict[str, Any]:
    """
    Read the body of a PUT into the document to store; an *existing* topic can't change its source.
    """
    root = root_section(body)
    check_name(root, path.name, "a system topic", longest=_LONGEST)
    stored = parse_resource(root, path, deployment, existing)
    properties = root.section("properties")
    stored["properties"] = {
        "source": _parse_source(properties, deployment, existing),
        "topicType": _parse_type(properties),
    }
    raise_faults(root.faults)
    return {**stored, "metricResourceId": existing["metricResourceId"] if existing else new_id()}


def _parse_source(
    properties: Section, deployment: DeploymentCapabilities, existing: Document | None
) -> str | None:
    source = properties.required_text("source")
    if source is not None and (fault := source_fault(source, deployment)):
        properties.refuse("source", fault)
    elif existing and source and source.casefold() != source_of(existing).casefold():
        properties.refuse("source", "System topic source cannot be modified.")
    return source_of(existing) if existing else source


def _parse_type(properties: Section) -> str:
    is_ours = DEPLOYMENT_ID.fullmatch(properties.text("source") or "")
    right = DEPLOYMENT_TYPE if is_ours else SOURCE_TYPE
    given = properties.required_text("topicType") or right
    if given.casefold() not in {SOURCE_TYPE.casefold(), DEPLOYMENT_TYPE.casefold()}:
        fault = f"Topic type {given} is not supported. {TOPIC_TYPES.sentence}"
        properties.refuse("topicType", fault)
    elif given.casefold() != right.casefold():
        properties.refuse("topicType", f"The topic type of this source is {right}.")
    return right


def source_fault(source: str, deployment: DeploymentCapabilities) -> str | None:
    """Say why events of *source* can't be had; ``None`` if they can."""
    account = account_of(source)
    if DEPLOYMENT_ID.fullmatch(source):
        return None
    if not ACCOUNT_ID.fullmatch(source):
        group = "/subscriptions/ID/resourceGroups/GROUP/providers"
        return (
            f"'{source}' is not supported as a source: it must be a custom topic, a storage "
            f"account, {group}/Microsoft.Storage/storageAccounts/NAME, or the deployment itself, "
            f"{group}/Pushgrid/deployments/{DEPLOYMENT}. {TOPIC_TYPES.sentence}"
        )
    if account not in deployment.known_accounts:
        return (
            f"The storage account '{account}' is not known here: a source is the app's own account,"
            f" '{deployment.account}', or one that PUSHGRID_DEADLETTER_ACCOUNTS names."
        )
    return None


def source_of(stored: Document) -> str:
    return str(stored["properties"]["source"])


def topic_of(source: str) -> SourceTopic:
    """Return the topic of *source*, an ARM id."""
    return SourceTopic(account_of(source))


def to_source_topic(
    name: SourceTopic, system_topics: Iterable[Document], sources: Iterable[str]
) -> Topic | None:
    """
    Return the topic of a source; ``None`` if it has no event subscriptions and no system topic.

    The tags of its system topic, one of *system_topics*, name the delivery profile. *sources* are
    the ARM ids under which its event subscriptions name it.
    """
    own = next((each for each in system_topics if topic_of(source_of(each)) == name), None)
    source = source_of(own) if own else next(iter(sources), None)
    if source is None:
        return None
    value = Topic(
        name=name.joined,
        arm_id=source,
        input_schema=InputSchema.EVENT_GRID,
        keys=(),
        profile=profile_tag(own) if own else None,
        disable_local_auth=True,
    )
    return checked(value)


def to_system_topic(stored: Document) -> Topic | None:
    """Turn a stored system topic into the value that the data plane uses."""
    return to_source_topic(topic_of(source_of(stored)), [stored], ())


def to_source_parent(stored: Document, deployment: DeploymentCapabilities) -> ParentTopic:
    """Turn a source into the value that event subscriptions of its scope depend on."""
    return _parent(stored["id"], f"{stored['id']}/providers/{PROVIDER}", stored, deployment)


def to_system_parent_topic(stored: Document, deployment: DeploymentCapabilities) -> ParentTopic:
    """Turn a stored system topic into the value that its event subscriptions depend on."""
    return _parent(source_of(stored), stored["id"], stored, deployment)


def _parent(
    source: str, holder: str, stored: Document, deployment: DeploymentCapabilities
) -> ParentTopic:
    return ParentTopic(
        name=topic_of(source).joined,
        arm_id=source,
        input_schema=InputSchema.EVENT_GRID,
        profile=deployment.profile(profile_tag(stored)),
        holder=holder,
    )
