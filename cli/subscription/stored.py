"""Tells what people should know about an event subscription that a deployment has stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from threading import Timer
from typing import Any

from cli.deployment import Deployment
from cli.failure import CommandFailed
from cli.subscription.document import destination_of, secrets_of
from cli.terminal import say

_SILENT_SECONDS = 1.0


def consent_text(document: Mapping[str, Any]) -> str | None:
    """Return why the endpoint of an event subscription has not consented, and what to do."""
    from shared.subscriptions.diagnosis import PENDING  # which takes long to load

    pending = (document.get("properties") or {}).get(PENDING)
    return f"{pending['why']} {pending['remedy']}" if pending else None


@contextmanager
def asking(deployment: Deployment, endpoint: str | None) -> Iterator[Deployment]:
    """
    Say on standard error that *endpoint* is asked for its consent, if that takes a second.

    Give the deployment to call: one that says nothing else meanwhile.
    """

    def tell() -> None:
        from shared.subscriptions.handshake import LONGEST  # which takes long to load

        seconds = f"{LONGEST.total_seconds():g} s"
        say(f"asking {str(endpoint).partition('?')[0]} for consent (up to {seconds})", err=True)

    if not endpoint:
        yield deployment
        return
    timer = Timer(_SILENT_SECONDS, tell)
    timer.daemon = True
    timer.start()
    try:
        yield deployment.quiet
    finally:
        timer.cancel()


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
