"""`pushgrid topic` and `pushgrid namespace`: manage custom topics, namespaces and their topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from cli.deleting import Doomed, asks_first, delete, subscriptions_of
from cli.deployment import Deployment, namespace_path, topic_path
from cli.failure import REFUSED, CommandFailed
from cli.option_types import CLOUD_EVENTS, EVENT_GRID, NAME_VALUE, SchemaName, WholeNumber
from cli.options import prints_found
from cli.output import print_table
from cli.program import CommandGroup
from cli.subscription.document import given
from cli.terminal import Found

_adds_tags = click.option("--tag", "tags", type=NAME_VALUE, multiple=True, help="Add a tag.")
_regenerates_key = click.option(
    "--regenerate", type=click.Choice(["key1", "key2"]), help="Regenerate this key first."
)


@click.group("topic", cls=CommandGroup)
def topic() -> None:
    """Manage topics. A namespace topic is NAMESPACE.TOPIC, a system topic systemTopics/NAME."""


@topic.command("list")
@click.option("--namespace", help="List the topics of this namespace.")
@prints_found
def list_topics(deployment: Deployment, namespace: str | None) -> Found:
    """List all topics, or those of a namespace."""
    found = [] if namespace else deployment.list("topics")
    rows = [_row(each, each["name"]) for each in found]
    if not namespace:
        inner = deployment.list("systemTopics")
        rows += [_row(each, f"systemTopics/{each['name']}") for each in inner]
        found += inner
    parents = [namespace] if namespace else [each["name"] for each in deployment.list("namespaces")]
    for parent in parents:
        inner = deployment.list(f"{namespace_path(parent)}/topics")
        rows += [_row(each, f"{parent}.{each['name']}") for each in inner]
        found += inner
    nothing = "There are no topics. Create one with 'pushgrid topic create NAME'."
    return Found(found, lambda: print_table(rows, nothing))


@topic.command("show")
@click.argument("name")
@prints_found
def show(deployment: Deployment, name: str) -> Found:
    """
    Show the ARM document of a topic.

    For system-ACCOUNT, it is that of the storage account.
    """
    return Found(deployment.get(topic_path(name).removesuffix("/providers/Microsoft.EventGrid")))


def ensure_topic(deployment: Deployment, name: str) -> bool:
    """
    Create a topic, with its namespace, unless there is one; return whether there was none.

    Raises:
        CommandFailed: the deployment refused.
    """
    namespace, dot, _ = name.partition(".")
    documents: dict[str, Any] = {topic_path(name): {"location": "local", "properties": {}}}
    if dot:
        parent = {namespace_path(namespace): {"location": "local"}}
        documents = {**parent, topic_path(name): {"properties": {}}}
    missing = [path for path in documents if not deployment.has(path)]
    for path in missing:
        deployment.put(path, documents[path])
    return bool(missing)


@topic.command("create")
@click.argument("name")
@click.option(
    # A schema of one's own needs a mapping, which is a document: `curl` or an ARM client sends it.
    "--input-schema",
    type=SchemaName(EVENT_GRID, CLOUD_EVENTS),
    help="Schema of the events that are published.",
)
@click.option("--profile", help="Edition of the delivery rules (tag deliveryProfile).")
@click.option(
    "--retention-days",
    type=WholeNumber(1, 7),
    help="Of a namespace topic: how long events live.",
)
@_adds_tags
@prints_found
def create(
    deployment: Deployment,
    name: str,
    input_schema: str | None,
    profile: str | None,
    retention_days: int | None,
    tags: tuple[tuple[str, str], ...],
) -> Found:
    """
    Create a topic, and print its endpoint and how to get its key.

    For NAMESPACE.TOPIC, a missing namespace is created as well.
    """
    namespace, dot, _ = name.partition(".")
    if dot:
        if profile or tags:
            raise CommandFailed("--profile, --tag: only custom topics have these")
        if not deployment.has(namespace_path(namespace)):
            deployment.put(namespace_path(namespace), {"location": "local"})
        properties = given(inputSchema=input_schema, eventRetentionInDays=retention_days)
        body: dict[str, Any] = {"properties": properties}
    else:
        if retention_days:
            raise CommandFailed("--retention-days: only namespace topics have one")
        all_tags = dict(tags) | ({"deliveryProfile": profile} if profile else {})
        properties = given(inputSchema=input_schema)
        body = {"location": "local", "tags": all_tags, "properties": properties}
    if deployment.has(topic_path(name)):
        raise CommandFailed(
            f"there is already a topic '{name}': change it with 'pushgrid topic update'", REFUSED
        )
    made = deployment.put(topic_path(name), body)
    endpoint = made["properties"].get("endpoint")
    where = f"\n  endpoint  {endpoint}" if endpoint else ""
    return Found(made, f"created topic {name}{where}\n  its key   pushgrid topic keys {name}")


@topic.command("update")
@click.argument("name")
@click.option("--tag", "tags", type=NAME_VALUE, multiple=True, help="Replace the tags.")
@click.option(
    "--set",
    "members",
    type=NAME_VALUE,
    multiple=True,
    help="Set a property, such as disableLocalAuth=true.",
)
@prints_found
def update(
    deployment: Deployment,
    name: str,
    tags: tuple[tuple[str, str], ...],
    members: tuple[tuple[str, str], ...],
) -> Found:
    """Change a topic; what is not given stays as it is."""
    body = given(tags=dict(tags), properties={key: _value(text) for key, text in members})
    if not body:
        raise CommandFailed("nothing to change: give --tag or --set")
    changed = deployment.patch(topic_path(name), body)
    known = {each.casefold() for each in changed["properties"]}
    if unknown := [key for key, _ in members if key.casefold() not in known]:
        raise CommandFailed(f"{', '.join(unknown)}: a topic has no such property", REFUSED)
    return Found(changed, f"updated topic {name}")


@topic.command("delete")
@click.argument("name")
@asks_first
@prints_found
def delete_topic(deployment: Deployment, name: str, yes: bool) -> Found:
    """Delete a topic and its event subscriptions; what waits is dropped."""
    doomed = Doomed("topic", name, topic_path(name))
    return delete(deployment, doomed, lambda: subscriptions_of(deployment, [name]), yes=yes)


@topic.command("keys")
@click.argument("name")
@_regenerates_key
@prints_found
def keys(deployment: Deployment, name: str, regenerate: str | None) -> Found:
    """Print the keys of a topic, or of a namespace topic's namespace."""
    return _keys_found(deployment.keys(topic_path(name), regenerate))


def _row(document: Mapping[str, Any], name: str) -> dict[str, object]:
    properties = document["properties"]
    return {
        "NAME": name,
        "INPUT SCHEMA": properties.get("inputSchema"),
        "ENDPOINT": properties.get("endpoint"),
        "PROFILE": (document.get("tags") or {}).get("deliveryProfile"),
    }


def _value(text: str) -> Any:
    if text.isdecimal():
        return int(text)
    return {"true": True, "false": False}.get(text.lower(), text)


@click.group("namespace", cls=CommandGroup)
def namespace() -> None:
    """Manage namespaces. Their topics are managed by 'pushgrid topic', as NAMESPACE.TOPIC."""


@namespace.command("list")
@prints_found
def list_namespaces(deployment: Deployment) -> Found:
    """List the namespaces of the deployment."""
    found = deployment.list("namespaces")
    rows = [
        {
            "NAME": each["name"],
            "HOST": (each["properties"].get("topicsConfiguration") or {}).get("hostname"),
        }
        for each in found
    ]
    nothing = "There are no namespaces. Create one with 'pushgrid namespace create NAME'."
    return Found(found, lambda: print_table(rows, nothing))


@namespace.command("show")
@click.argument("name")
@prints_found
def show_namespace(deployment: Deployment, name: str) -> Found:
    """Show the ARM document of a namespace."""
    return Found(deployment.get(namespace_path(name)))


@namespace.command("create")
@click.argument("name")
@_adds_tags
@prints_found
def create_namespace(deployment: Deployment, name: str, tags: tuple[tuple[str, str], ...]) -> Found:
    """Create a namespace."""
    if deployment.has(namespace_path(name)):
        raise CommandFailed(
            f"there is already a namespace '{name}': change it with 'pushgrid namespace update'",
            REFUSED,
        )
    made = deployment.put(namespace_path(name), {"location": "local", "tags": dict(tags)})
    return Found(made, f"created namespace {name}")


@namespace.command("update")
@click.argument("name")
@click.option("--tag", "tags", type=NAME_VALUE, multiple=True, required=True, help="Set a tag.")
@prints_found
def update_namespace(deployment: Deployment, name: str, tags: tuple[tuple[str, str], ...]) -> Found:
    """Replace the tags of a namespace."""
    changed = deployment.patch(namespace_path(name), {"tags": dict(tags)})
    return Found(changed, f"updated namespace {name}")


@namespace.command("delete")
@click.argument("name")
@asks_first
@prints_found
def delete_namespace(deployment: Deployment, name: str, yes: bool) -> Found:
    """Delete a namespace with its topics and their event subscriptions."""

    def subscriptions() -> Sequence[tuple[str, str]]:
        topics = deployment.list(f"{namespace_path(name)}/topics")
        return subscriptions_of(deployment, [f"{name}.{each['name']}" for each in topics])

    doomed = Doomed("namespace", name, namespace_path(name))
    return delete(deployment, doomed, subscriptions, yes=yes)


@namespace.command("keys")
@click.argument("name")
@_regenerates_key
@prints_found
def namespace_keys(deployment: Deployment, name: str, regenerate: str | None) -> Found:
    """Print the keys that publish to all topics of a namespace."""
    return _keys_found(deployment.keys(namespace_path(name), regenerate))


def _keys_found(keys: Mapping[str, str]) -> Found:
    return Found(keys, f"key1  {keys['key1']}\nkey2  {keys['key2']}")
