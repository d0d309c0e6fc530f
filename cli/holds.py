"""Says why event subscriptions get nothing now."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from cli.deployment import Deployment
from cli.output import printable

Hold = Mapping[str, Any]


def read_holds(deployment: Deployment) -> dict[tuple[str, str], Hold]:
    """Return what is paused or held, by topic and event subscription in lower case."""
    found = deployment.get("holds")["value"]
    return {(each["topic"].lower(), each["subscription"].lower()): each for each in found}


def hold_text(hold: Hold) -> str:
    """Return in one line since when it is paused and by whom, and until when it is held and why."""
    parts = []
    if paused := hold["paused"]:
        parts.append(f"paused since {_clock(paused['since'])} by {printable(paused['by'])}")
    if held := hold["held"]:
        until = f" until {_clock(held['until'])}" if held["until"] else ""
        parts.append(f"held{until}: {printable(held['why'])}")
    return "; ".join(parts)


def _clock(text: str) -> str:
    return f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M:%S}"
