"""`pushgrid export`: writes what a deployment is made of, so that another can take it over."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from cli.configuration.resources import SENT
from cli.deployment import Deployment, namespace_path, subscription_path, topic_path
from cli.failure import REFUSED, CommandFailed
from cli.options import calls_deployment
from cli.subscription.document import destination_of, topic_of
from cli.terminal import counted, say

FORM = 1  # of the file
_HEADERS = "deliveryAttributeMappings"


@click.command("export")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@calls_deployment
def export(deployment: Deployment, file: Path) -> None:
    """
    Write topics and event subscriptions to a file.

    FILE has all keys and secrets, and is readable by this user alone. 'pushgrid import' takes it,
    so that publishers and endpoints notice nothing of a move. What waits is not in it: let it
    drain.
    """
    resources = [*_resources(deployment)]
    document = {
        "pushgrid": "export",
        "form": FORM,
        "scope": deployment.scope,
        "account": deployment.storage_account().rpartition("/")[2],
        "resources": resources,
    }
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as written:
            json.dump(document, written, indent=2)
    except FileExistsError:
        raise CommandFailed(f"'{file}' exists: name another file", REFUSED) from None
    count = counted(len(resources), "resource")
    say(f"{file}: {count}. It holds keys and secrets: keep it as secret as they are.")


def _resources(deployment: Deployment) -> Iterator[Mapping[str, Any]]:
    """Yield all resources, parents first."""
    topics = []
    for each in deployment.list("topics"):
        yield _with_keys(deployment, topic_path(each["name"]), each)
    for namespace in deployment.list("namespaces"):
        path = namespace_path(namespace["name"])
        yield _with_keys(deployment, path, namespace)
        for each in deployment.list(f"{path}/topics"):
            topics.append(name := f"{namespace['name']}.{each['name']}")
            yield _resource(topic_path(name), each)
    for each in deployment.list("systemTopics"):
        topics.append(name := f"systemTopics/{each['name']}")
        yield _resource(topic_path(name), each)
    for each in deployment.list("eventSubscriptions"):
        yield _subscription(deployment, topic_of(each["id"]), each)
    for topic in topics:
        for each in deployment.subscriptions(topic):
            yield _subscription(deployment, topic, each)


def _resource(path: str, document: Mapping[str, Any], **more: Any) -> Mapping[str, Any]:
    kept = {name: document[name] for name in SENT if document.get(name) is not None}
    return {"path": path, "document": kept, **more}


def _with_keys(deployment: Deployment, path: str, document: Mapping[str, Any]) -> Mapping[str, Any]:
    return _resource(path, document, keys=deployment.keys(path, None))


def _subscription(
    deployment: Deployment, topic: str, document: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return an event subscription with what its document does not show."""
    path = subscription_path(topic, document["name"])
    destination = destination_of(document["properties"])["properties"]
    if "endpointBaseUrl" in destination or "endpointUrl" in destination:
        destination |= deployment.post(f"{path}/getFullUrl")
    if destination.get(_HEADERS):
        destination[_HEADERS] = deployment.post(f"{path}/getDeliveryAttributes")["value"]
    return _resource(path, document)
