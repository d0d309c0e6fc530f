"""Warns of a dead-letter container that does not exist."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from cli.deployment import Deployment
from cli.failure import CommandFailed
from cli.subscription_document import destination_of


def missing_container(deployment: Deployment, path: str, document: Mapping[str, Any]) -> str | None:
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
