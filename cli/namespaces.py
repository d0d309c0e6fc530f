"""`pushgrid namespace`: manages namespaces."""

from __future__ import annotations

from collections.abc import Sequence

import click

from cli.deleting import Doomed, asks_first, delete, subscriptions_of
from cli.deployment import Deployment, namespace_path
from cli.failure import REFUSED, CommandFailed
from cli.groups import CommandGroup
from cli.option_types import NAME_VALUE
from cli.options import prints_found, regenerates_key
from cli.output import keys_found, print_table
from cli.terminal import Found, print_json


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
def show(deployment: Deployment, name: str) -> Found:
    """Show the ARM document of a namespace."""
    found = deployment.get(namespace_path(name))
    return Found(found, lambda: print_json(found))


@namespace.command("create")
@click.argument("name")
@click.option("--tag", "tags", type=NAME_VALUE, multiple=True, help="Add a tag.")
@prints_found
def create(deployment: Deployment, name: str, tags: tuple[tuple[str, str], ...]) -> Found:
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
def update(deployment: Deployment, name: str, tags: tuple[tuple[str, str], ...]) -> Found:
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
@regenerates_key
@prints_found
def keys(deployment: Deployment, name: str, regenerate: str | None) -> Found:
    """Print the keys that publish to all topics of a namespace."""
    return keys_found(deployment.keys(namespace_path(name), regenerate))
