"""Tells what people should know about an event subscription that a deployment has stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from cli.deployment import Deployment
from cli.failure import CommandFailed
from cli.subscription.document import destination_of, secrets_of

_AWAITING = "the endpoint has to open the validation link that it was sent, within ten minutes"


def consent_text(document: Mapping[str, Any]) -> str | None:
    """Return what the consent to an event subscription awaits, if anything."""
    state = (document.get("properties") or {}).get("provisioningState")
    return _AWAITING if state == "AwaitingManualAction" else None


def new_secret(deployment: Deployment, path: str) -> str:
    """Return a line with the secret that was made for the event subscription at *path*."""
    listed = deployment.post(f"{path}/getDeliveryAttributes")["value"]
    return f"signing secret, which is not shown again: {secrets_of(listed)}"


def warnings_of(deployment: Deployment, path: str, answer: Mapping[str, Any]) -> Iterator[str]:
    """
    Yield what people should know about the event subscription at *path*.

    *answer* shows it, with the deployment's own warnings.
    """
    if missing := _missing_container(deployment, path, answer):
        yield missing
    yield from answer.get("warnings", ())


def _missing_container(
    deployment: Deployment, path: str, document: Mapping[str, Any]
) -> str | None:
    """Return a warning if the event subscription at *path* has dead letters, but no container."""
    properties = document.get("properties") or {}
    destination = destination_of(properties, "deadLetterDestination") if properties else None
    if not destination:
        return None
    try:
        deployment.get(f"{path}/deadLetters", **{"$top": 1, "since": datetime.now(UTC).isoformat()})
    except CommandFailed as error:
        container = destination["properties"]["blobContainerName"]
        if error.status == HTTPStatus.NOT_FOUND and f"'{container}'" in error.message:
            until = "until you create it, events that are given up are dropped"
            return f"there is no container '{container}'; {until}"
    return None
