"""`pushgrid dead-letters replay`, `jobs` and `cancel`, `pushgrid events`: send events again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from time import sleep
from typing import Any

import click
from rich.text import Text

from cli.deleting import asks_first, confirm
from cli.deployment import Deployment
from cli.failure import REFUSED, CommandFailed
from cli.local.narration import replay_state
from cli.option_types import WholeNumber
from cli.options import chooses_dead_letters, prints_found, span_members
from cli.output import Console, moment, print_table
from cli.program import CommandGroup
from cli.terminal import Found, counted, printable, say

_POLL = 1.0  # seconds
_STALLED = 900  # polls; a host that is killed holds its step for up to ten minutes
_CHOOSING = ("topic", "subscription", "prefix", "reason", "container")
_RUNNING, _DONE, _CANCELLED = "Running", "Done", "Cancelled"


@click.command("replay")
@chooses_dead_letters
@click.option("--reason", help="Only events with this reason, such as TimeToLiveExceeded.")
@click.option("--container", help="Blobs of this container, which can be Azure's; needs --to.")
@click.option("--account", help="Storage account of the container; the default is the app's own.")
@click.option(
    "--to",
    metavar="SUBSCRIPTION",
    help="Send all to this event subscription, or to TOPIC/SUBSCRIPTION; the default is the one "
    "that each event was for.",
)
@click.option("--rate", type=WholeNumber(1, 1000), help="Events a second; the default is 50.")
@click.option("--dry-run", is_flag=True, help="Only count what would be sent.")
@click.option("--again", is_flag=True, help="Also send dead letters that were already replayed.")
@click.option(
    "--unproven",
    is_flag=True,
    help="Also send CloudEvents whose blob does not name their topic: an event subscription of the "
    "same name may share its folder.",
)
@click.option("--no-wait", is_flag=True, help="Return when the job is started.")
@asks_first
@prints_found
def replay(
    deployment: Deployment,
    *,
    since: datetime | None,
    until: datetime | None,
    to: str | None,
    dry_run: bool,
    no_wait: bool,
    yes: bool,
    **chosen: Any,
) -> Found:
    """
    Send dead letters again, as new deliveries.

    Asks for confirmation unless an option selects some. No filter is applied. The app runs the job,
    which continues when this command ends. The exit code is 1 if the job failed, even in part, or
    was cancelled.
    """
    times = span_members(since, until)
    if to and "/" not in to and not chosen["topic"]:
        raise click.UsageError("--to needs a topic: write TOPIC/SUBSCRIPTION, or give --topic.")
    wanted = {**times, **chosen, "dryRun": dry_run, "to": _subscription(to) if to else None}
    body = {name: each for name, each in wanted.items() if each is not None}
    if not (dry_run or yes or any(times.values()) or any(chosen[each] for each in _CHOOSING)):
        confirm("this sends all dead letters again", lambda: _counted(deployment, body))
    job = deployment.post("replays", body)
    if job["state"] == _RUNNING and not no_wait:
        what = "dry run, which sends nothing," if dry_run else "replay"
        say(
            f"{what} {job['id']} has started, and goes on without this command; "
            f"'pushgrid dead-letters cancel {job['id']}' ends it",
            err=True,
        )
        job = _wait(deployment, job)
    if dry_run:
        say("this is a dry run: nothing is sent", err=True)
    elif job["state"] == _DONE and job["replayed"]:
        say(
            f"{counted(job['replayed'], 'event')} replayed: 'pushgrid dead-letters jobs' tells "
            "how many have failed again",
            err=True,
        )
    return _found(job, 0 if job["state"] in {_RUNNING, _DONE} else REFUSED)


@click.command("jobs")
@prints_found
def jobs(deployment: Deployment) -> Found:
    """List replays, the latest first."""
    found = deployment.get("replays")["value"]
    rows = [_row(each) for each in found]
    return Found(found, lambda: print_table(rows, "There are no replays."))


@click.command("cancel")
@click.argument("job")
@prints_found
def cancel(deployment: Deployment, job: str) -> Found:
    """Cancel JOB; events that it has queued are still delivered."""
    found = deployment.post(f"replays/{job}/cancel")
    if found["state"] != _CANCELLED:
        ended = f"it ended at {moment(found['endedAt'])}: {replay_state(found)}"
        say(f"replay {job} can't be cancelled: {ended}", err=True)
    return _found(found)


@click.group("events", cls=CommandGroup)
def events() -> None:
    """Send single events again."""


@events.command("resend")
@click.argument("event_id", metavar="ID")
@click.option("--topic", "-t", help="Only dead letters of this topic, or NAMESPACE.TOPIC.")
@click.option("--subscription", "-s", help="Only of event subscriptions of this name.")
@click.option(
    "--unproven", is_flag=True, help="Also CloudEvents whose blob does not name their topic."
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

    It replays only these dead letters, including those that were replayed before. Only dead letters
    keep the event itself; timelines record attempts.
    """
    wanted = {"event": event_id, "topic": topic, "subscription": subscription}
    body = {name: each for name, each in wanted.items() if each is not None}
    job = _followed(deployment, {**body, "again": True, "unproven": unproven})
    if job["state"] != _DONE:
        faults = "".join(f"\n  {each['where']}: {each['why']}" for each in job["faults"])
        sent = f"{counted(job['replayed'], 'dead letter')} sent"
        raise CommandFailed(f"replay {job['id']}: {replay_state(job)}: {sent}{faults}", REFUSED)
    if not job["replayed"]:
        raise CommandFailed(
            f"no dead letter has the event id '{event_id}': only dead letters keep the event, see "
            "'pushgrid dead-letters list'; any other is sent again with 'pushgrid publish'",
            REFUSED,
        )
    return Found(job, f"resent {event_id}: {job['replayed']} of {job['events']} dead letters read")


def _counted(deployment: Deployment, body: Mapping[str, Any]) -> str:
    """Return in words how many dead letters a replay would send: a dry run counts them."""
    job = _followed(deployment, {**body, "dryRun": True})
    events = counted(job["replayed"], "event")
    return f": {events} of {counted(len(job['sources']), 'event subscription')}"


def _followed(deployment: Deployment, body: Mapping[str, Any]) -> Mapping[str, Any]:
    return _wait(deployment, deployment.post("replays", body))


def _wait(deployment: Deployment, job: Mapping[str, Any]) -> Mapping[str, Any]:
    """
    Return the job when it has ended; a deployment that does not answer is asked again.

    Raises:
        CommandFailed: the job can't be read, or stands still.
    """
    unchanged = 0
    with Console(stderr=True).status(_progress(job)) as progress:
        while job["state"] == _RUNNING:
            sleep(_POLL)
            before = job["updatedAt"]
            try:
                job = deployment.quiet.get(f"replays/{job['id']}")
                progress.update(_progress(job))
            except CommandFailed as error:
                if not error.is_passing:
                    raise
                progress.update(Text(f"{job['id']}: {error.message}"))
            unchanged = unchanged + 1 if job["updatedAt"] == before else 0
            if unchanged >= _STALLED:
                raise CommandFailed(
                    f"the replay {job['id']} has not changed since {before}", REFUSED
                )
    return job


def _subscription(text: str) -> dict[str, str]:
    topic, slash, name = text.rpartition("/")
    return {"topic": topic, "subscription": name} if slash else {"subscription": name}


def _found(job: Mapping[str, Any], exit_code: int = 0) -> Found:
    def show() -> None:
        print_table([_row(job)], "")
        for each in job["faults"]:
            say(printable(f"{each['where']}: {each['why']}"))
        if job["moreFaults"]:
            say(f"… and {job['moreFaults']} more")

    return Found(job, show, exit_code)


def _progress(job: Mapping[str, Any]) -> Text:
    sent = "would send" if job["dryRun"] else "sent"
    read = f"read {job['events']} events in {job['blobs']} blobs"
    return Text(f"{job['id']}: {sent} {job['replayed']}, {read}")


def _row(job: Mapping[str, Any]) -> dict[str, object]:
    sources = job["sources"]
    skipped = [f"{why} ({count})" for why, count in job["skipped"].items()]
    state = replay_state(job)
    if again := job["failedAgain"]:
        state = f"{state}, {again} failed again"
    return {
        "JOB": job["id"],
        "STATE": f"{state}, dry run" if job["dryRun"] else state,
        "BLOBS": job["blobs"],
        "EVENTS": job["events"],
        "REPLAYED": f"would send {job['replayed']}" if job["dryRun"] else job["replayed"],
        "REPEATED": job["repeated"],
        "SKIPPED": skipped or 0,
        "OF": _source(sources[0]) if len(sources) == 1 else counted(len(sources), "subscription"),
        "TO": job["to"] and _source(job["to"]),
        "STARTED": moment(job["startedAt"]),
        "UPDATED": job["updatedAt"] and moment(job["updatedAt"]),
        "BY": job["by"],
        "WHY": job["why"],
    }


def _source(place: Mapping[str, Any]) -> str:
    named = f"{place['topic']}/{place['subscription']}"
    return named if place["subscription"] else f"container {place['container']}"
