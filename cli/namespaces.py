"""`pushgrid namespace`: manages namespaces."""

from __future__ import annotations

import click

from cli.deployment import Deployment, namespace_path
from cli.failure import REFUSED, CommandFailed
from cli.options import NameValue, calls_deployment, prints_json
from cli.output import print_json, print_keys, print_table


@click.group("namespace")
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
@calls_deployment
def show(deployment: Deployment, name: str) -> None:
    """Show the ARM document of a namespace."""
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
    made = deployment.put(namespace_path(name), {"location": "local", "tags": dict(tags)})
    if as_json:
        print_json(made)
    else:
        click.echo(f"created namespace {name}")


@namespace.command("update")
@click.argument("name")
@click.option("--tag", "tags", type=NameValue(), multiple=True, required=True, help="Set a tag.")
@calls_deployment
def update(deployment: Deployment, name: str, tags: tuple[tuple[str, str], ...]) -> None:
    """Replace the tags of a namespace."""
    deployment.patch(namespace_path(name), {"tags": dict(tags)})
    click.echo(f"updated namespace {name}")


@namespace.command("delete")
@click.argument("name")
@calls_deployment
def delete(deployment: Deployment, name: str) -> None:
    """Delete a namespace with its topics and their event subscriptions."""
    if not deployment.delete(namespace_path(name)):
        raise CommandFailed(f"there is no namespace '{name}'", REFUSED)
    click.echo(f"deleted namespace {name}")


@namespace.command("keys")
@click.argument("name")
@click.option("--regenerate", type=click.Choice(["key1", "key2"]), help="Make this key anew first.")
@prints_json
@calls_deployment
def keys(deployment: Deployment, name: str, regenerate: str | None, as_json: bool) -> None:
    """Print the keys that publish to all topics of a namespace."""
    print_keys(deployment.keys(namespace_path(name), regenerate), as_json=as_json)
