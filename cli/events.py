"""`pushgrid events`: sends single events again."""

from __future__ import annotations

import click

from cli.deployment import Deployment
from cli.failure import REFUSED, CommandFailed
from cli.groups import CommandGroup
from cli.options import prints_found
from cli.replays import DONE, followed
from cli.terminal import Found


@click.group("events", cls=CommandGroup)
def events() -> None:
    """Send single events again."""


@events.command("resend")
@click.argument("event_id", metavar="ID")
@click.option("--topic", "-t", help="Only dead letters of this topic, or NAMESPACE.TOPIC.")
@click.option("--subscription", "-s", help="Only of event subscriptions of this name.")
@click.option(
    "--unproven", is_flag=True, help="Also CloudEvents whose blob does not tell their topic."
)
@prints_found
def resend(
    deployment: Deployment,
    event_id: str,
    topic: str | None,
    subscription: str | None,
    unproven: bool,
) -> Found:
    """
    Send the dead letters of the event ID again, to the event subscriptions that they were for.

    It is a replay of these dead letters only, also of those that were replayed before. Only dead
    letters keep the event: what timelines record of others is its attempts.
    """
    wanted = {"event": event_id, "topic": topic, "subscription": subscription}
    body = {name: each for name, each in wanted.items() if each is not None}
    job = followed(deployment, {**body, "again": True, "unproven": unproven})
    if job["state"] != DONE:
        raise CommandFailed(f"replay {job['id']}: {job['state']}: {job['why']}", REFUSED)
    if not job["replayed"]:
        raise CommandFailed(
            f"no dead letter has the event id '{event_id}': only dead letters keep the event, see "
            "'pushgrid dead-letters list'; any other is sent again with 'pushgrid publish'",
            REFUSED,
        )
    return Found(job, f"resent {event_id}: {job['replayed']} of {job['events']} dead letters read")
