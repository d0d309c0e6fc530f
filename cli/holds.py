"""Says why event subscriptions get nothing now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cli.deployment import Deployment
from cli.output import moment
from cli.terminal import printable

Hold = Mapping[str, Any]
_AWAITING = "the endpoint has to open the validation link that it was sent, within ten minutes"


def read_holds(deployment: Deployment) -> dict[tuple[str, str], Hold]:
    """Return what is paused or held, by topic and event subscription in lower case."""
    found = deployment.get("holds")["value"]
    return {(each["topic"].lower(), each["subscription"].lower()): each for each in found}


def consent_text(document: Mapping[str, Any]) -> str | None:
    """Return what the consent to an event subscription awaits, if anything."""
    state = (document.get("properties") or {}).get("provisioningState")
    return _AWAITING if state == "AwaitingManualAction" else None


def hold_text(hold: Hold) -> str:
    """Return in one line since when it is paused and by whom, and until when it is held and why."""
    parts = []
    if paused := hold["paused"]:
        parts.append(f"paused since {moment(paused['since'])} by {printable(paused['by'])}")
    if held := hold["held"]:
        until = f" until {moment(held['until'])}" if held["until"] else ""
        parts.append(f"held{until}: {printable(held['why'])}")
    return "; ".join(parts)
