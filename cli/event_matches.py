"""Says which event subscriptions an event matches, and which condition says no."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from cli.deployment import Deployment, topic_path
from cli.failure import CommandFailed
from cli.publish import completed_events
from cli.terminal import printable

Match = Mapping[str, Any]  # as ``…/matches`` answers it


def read_matches(
    deployment: Deployment, topic: str, file: TextIO, subscription: str | None
) -> Sequence[Match]:
    """
    Ask which event subscriptions of a topic the events in a file match, or only the one named.

    Raises:
        CommandFailed: there is no such event subscription, or the deployment refused the events.
    """
    events = completed_events(deployment, topic, file)
    found: Sequence[Match] = deployment.post(f"{topic_path(topic)}/matches", events)["value"]
    wanted = [each for each in found if subscription in {None, each["subscription"]}]
    if subscription and not wanted:
        names = ", ".join(each["subscription"] for each in found) or "none"
        raise CommandFailed(f"{topic} has no event subscription '{subscription}', but {names}")
    return wanted


def matches_text(topic: str, found: Sequence[Match]) -> str:
    """Return a line for each event subscription."""
    return "\n".join(map(_line, found)) or f"{topic} has no event subscription"


def _line(match: Match) -> str:
    name = match["subscription"]
    if match["matched"]:
        limits = match.get("limits")
        return f"{name}: matches; it gets {limits['text']}" if limits else f"{name}: matches"
    return f"{name}: no match: {printable(match['why'])}"
