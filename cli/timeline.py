"""`pushgrid timeline`: prints every recorded attempt of the events of a subscription."""

from __future__ import annotations

from datetime import datetime

import click

from cli.deployment import Deployment, subscription_path
from cli.event_timeline import state_text, table
from cli.options import Since, WholeNumber, of_topic, prints_found, shows_most
from cli.terminal import Found

_NOTHING = 1  # exit code: nothing is recorded


@click.command("timeline")
@of_topic
@click.option("--subscription", "-s", required=True, help="Event subscription.")
@click.option("--event", metavar="ID", help="Only the event with this publisher-assigned id.")
@click.option(
    "--since",
    type=Since(),
    default="7d",
    show_default=True,
    help="Events published since 90m, 6h or 2d ago, or since a time such as 2026-02-09T12:00 (UTC);"
    " whole hours.",
)
@shows_most(WholeNumber(1, 1000), 20, "The latest N events.")
@prints_found
def timeline(
    deployment: Deployment,
    topic: str,
    subscription: str,
    event: str | None,
    since: datetime,
    most: int,
) -> Found:
    """
    Show the attempts of events, and why each failed.

    Events that were delivered at once are not shown, unless the deployment records them.

    The exit code is 1 if nothing is recorded.
    """
    path = f"{subscription_path(topic, subscription)}/attempts"
    query = {"since": since.isoformat(), "event": event, "$top": most}
    found = deployment.get(path, **query)
    events, now = found["value"], datetime.fromisoformat(found["at"])
    parts = [table(each, now) for each in events] or [_nothing(topic, subscription, event)]
    state = state_text(found["state"], since, now, shows_events=bool(events))
    return Found(found, "\n\n".join([*parts, state]), 0 if events else _NOTHING)


def _nothing(topic: str, subscription: str, event: str | None) -> str:
    of_event = f" of event '{event}'" if event else ""
    return (
        f"No failed attempt{of_event} is recorded for subscription '{subscription}' of topic "
        f"'{topic}' in this time.\nEvents delivered at the first attempt are recorded only if "
        "PUSHGRID_ATTEMPT_LOG is 'all'. Events held before their\nfirst attempt and events that "
        "the filters exclude have no record. Records are kept for a week."
    )
