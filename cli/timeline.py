"""`pushgrid timeline`: prints every recorded attempt of the events of a subscription."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from cli.deployment import Deployment, subscription_path
from cli.event_timeline import state_text, table
from cli.options import calls_deployment, prints_json
from cli.output import print_json

_NOTHING = 1  # exit code: nothing is recorded
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
_AGO = re.compile(r"([0-9]{1,5})([mhd])")


class Since(click.ParamType[Any]):
    """A time ago, such as ``6h``, or a time of ISO 8601; both in UTC."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a datetime."""
        if isinstance(value, datetime):
            return value
        try:
            if ago := _AGO.fullmatch(value):
                return datetime.now(UTC) - int(ago[1]) * _UNITS[ago[2]]
            moment = datetime.fromisoformat(value)
            return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
        except (ValueError, OverflowError):
            self.fail(f"'{value}' is neither like 6h nor a time", param, ctx)


@click.command("timeline")
@click.option("--topic", "-t", required=True, help="Topic, or NAMESPACE.TOPIC.")
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
@click.option(
    "--most",
    type=click.IntRange(1, 1000),
    default=20,
    metavar="N",
    show_default=True,
    help="The latest N events.",
)
@prints_json
@calls_deployment
def timeline(
    deployment: Deployment,
    topic: str,
    subscription: str,
    event: str | None,
    since: datetime,
    most: int,
    as_json: bool,
) -> int:
    """
    Show the attempts of events that were not delivered at once, and why.

    The exit code is 1 if nothing is recorded.
    """
    path = f"{subscription_path(topic, subscription)}/attempts"
    query = {"since": since.isoformat(), "event": event, "$top": most}
    found = deployment.get(path, **query)
    events, now = found["value"], datetime.fromisoformat(found["at"])
    if as_json:
        print_json(found)
    else:
        parts = [table(each, now) for each in events] or [_nothing(topic, subscription, event)]
        click.echo("\n\n".join([*parts, state_text(found["state"], since, now)]))
    return 0 if events else _NOTHING


def _nothing(topic: str, subscription: str, event: str | None) -> str:
    of_event = f" of event '{event}'" if event else ""
    return (
        f"No failed attempt{of_event} is recorded for subscription '{subscription}' of topic "
        f"'{topic}' in this time.\nEvents delivered at the first attempt are recorded only if "
        "PUSHGRID_ATTEMPT_LOG is 'all'. Events held before their\nfirst attempt and events that "
        "the filters exclude have no record. Records are kept for a week."
    )
