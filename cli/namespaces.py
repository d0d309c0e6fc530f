"""`pushgrid namespace`: manages namespaces."""

from __future__ import annotations

from collections.abc import Sequence

import click

from cli.deleting import Doomed, asks_first, delete, subscriptions_of
from cli.deployment import Deployment, namespace_path
from cli.failure import REFUSED, CommandFailed
from cli.groups import CommandGroup
from cli.options import NameValue, calls_deployment, prints_json, regenerates_key
from cli.output import print_keys, print_result, print_table
from cli.terminal import print_json


@click.group("namespace", cls=CommandGroup)
def namespace() -> None:
    """Manage namespaces. Their topics are managed by 'pushgrid topic', as NAMESPACE.TOPIC."""


@namespace.command("list")
@prints_json
@calls_deployment
def list_namespaces(deployment: Deployment, as_json: bool) -> None:
    """List the namespaces of the deployment."""
    found = deployment.list("namespaces")
    if as_json:
        print_json(found)
        return
    rows = [
        {
            "NAME": each["name"],
            "HOST": (each["properties"].get("topicsConfiguration") or {}).get("hostname"),
        }
        for each in found
    ]
    print_table(rows, "There are no namespaces. Create one with 'pushgrid namespace create NAME'.")


@namespace.command("show")
@click.argument("name")
@prints_json
@calls_deployment
def show(deployment: Deployment, name: str, as_json: bool) -> None:
    """Show the ARM document of a namespace."""
    del as_json  # it is JSON
    print_json(deployment.get(namespace_path(name)))


@namespace.command("create")
@click.argument("name")
@click.option("--tag", "tags", type=NameValue(), multiple=True, help="Add a tag.")
@prints_json
@calls_deployment
def create(
    deployment: Deployment, name: str, tags: tuple[tuple[str, str], ...], as_json: bool
) -> None:
    """Create a namespace."""
    if deployment.has(namespace_path(name)):
        raise CommandFailed(
            f"there is already a namespace '{name}': change it with 'pushgrid namespace update'",
            REFUSED,
        )
    made = deployment.put(namespace_path(name), {"location": "local", "tags": dict(tags)})
    print_result(f"created namespace {name}", made, as_json=as_json)


@namespace.command("update")
@click.argument("name")
@click.option("--tag", "tags", type=NameValue(), multiple=True, required=True, help="Set a tag.")
@prints_json
@calls_deployment
def update(
    deployment: Deployment, name: str, tags: tuple[tuple[str, str], ...], as_json: bool
) -> None:
    """Replace the tags of a namespace."""
    changed = deployment.patch(namespace_path(name), {"tags": dict(tags)})
    print_result(f"updated namespace {name}", changed, as_json=as_json)


@namespace.command("delete")
@click.argument("name")
@asks_first
@prints_json
@calls_deployment
def delete_namespace(deployment: Deployment, name: str, yes: bool, as_json: bool) -> None:
    """Delete a namespace with its topics and their event subscriptions."""

    def subscriptions() -> Sequence[tuple[str, str]]:
        topics = deployment.list(f"{namespace_path(name)}/topics")
        return subscriptions_of(deployment, [f"{name}.{each['name']}" for each in topics])

    doomed = Doomed("namespace", name, namespace_path(name))
    delete(deployment, doomed, subscriptions, yes=yes, as_json=as_json)


@namespace.command("keys")
@click.argument("name")
@regenerates_key
@prints_json
@calls_deployment
def keys(deployment: Deployment, name: str, regenerate: str | None, as_json: bool) -> None:
    """Print the keys that publish to all topics of a namespace."""
    print_keys(deployment.keys(namespace_path(name), regenerate), as_json=as_json)
