"""`pushgrid dead-letters`: shows events that could not be delivered, and sends them again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import click

from cli.deployment import Deployment, subscription_path
from cli.failure import REFUSED, CommandFailed
from cli.option_types import WholeNumber
from cli.options import chooses_dead_letters, prints_found, shows_most, span_members, store_option
from cli.output import moment, print_table
from cli.program import CommandGroup
from cli.replays import cancel, jobs, replay
from cli.subscription.document import destination_of, topic_of
from cli.terminal import Found, counted, say
from cli.timeline import said
from shared.clip import clip
from shared.deadletter.paths import dead_letter_folder

_NONE = (
    "There are no dead letters of {}: nothing was written yet, or nothing of what was asked for. "
    "An event that is given up is written about five minutes after its last attempt."
)
_NO_DESTINATION = (
    "No such event subscription has a dead-letter destination: "
    "events that are given up are dropped."
)
_PAGE = 100
_MOST_NAMED = 5
_MOST_DATA = 200  # characters of an event beside its answer; --json has it whole
_MOST_EVENTS = 1000  # whose attempts are read beside a page of dead letters


class _Subscription(NamedTuple):
    topic: str
    name: str

    @property
    def path(self) -> str:
        return subscription_path(self.topic, self.name)


@click.group("dead-letters", cls=CommandGroup)
def dead_letters() -> None:
    """
    Show undelivered events, and send them again.

    NAMESPACE.TOPIC is a namespace topic, system-ACCOUNT a storage account, and systemTopics/NAME a
    system topic.
    """


@dead_letters.command("list")
@chooses_dead_letters
@click.option("--reason", help="Only blobs with this reason, such as TimeToLiveExceeded.")
@shows_most(WholeNumber(1), 20, "The latest N blobs.")
@prints_found
def list_blobs(
    deployment: Deployment,
    topic: str | None,
    subscription: str | None,
    since: datetime | None,
    until: datetime | None,
    most: int,
    **chosen: str | None,
) -> Found:
    """
    List the blobs of dead letters, newest first.

    The exit code is 1 if there are none, or if a container can't be read.
    """
    query = {**span_members(since, until), **chosen, "$top": min(most, _PAGE)}
    found: list[dict[str, Any]] = []
    failed = False
    asked = _subscriptions(deployment, topic, subscription)
    for each in asked:
        try:
            found += islice(_blobs(deployment, each, query), most)
        except CommandFailed as error:
            say(f"pushgrid: {each.topic}, {each.name}: {error.message}", err=True)
            failed = True
    latest = sorted(found, key=lambda blob: (blob["writtenAt"], blob["blob"]), reverse=True)[:most]

    def show() -> None:
        if latest or not failed:
            nothing = _NONE.format(_named(asked)) if asked else _NO_DESTINATION
            print_table([_blob_row(each) for each in latest], nothing)

    return Found(latest, show, REFUSED if failed or not latest else 0)


@dead_letters.command("show")
@click.argument("blob")
@click.option("--topic", "-t", help="Topic or NAMESPACE.TOPIC; found automatically if omitted.")
@click.option(
    "--subscription", "-s", "name", help="Event subscription; found automatically if omitted."
)
@shows_most(WholeNumber(1), 1000, "The first N records.")
@prints_found
def show(
    deployment: Deployment,
    blob: str,
    topic: str | None,
    name: str | None,
    most: int,
) -> Found:
    """
    Show the dead letters in BLOB.

    'pushgrid dead-letters list' names the blobs.
    """
    found = [*islice(_records(deployment, blob, topic, name), most + 1)]
    records = found[:most]
    if len(found) > most:
        say(f"pushgrid: the blob has more than {most} records; give --most", err=True)
    rows = [_record_row(each) for each in records]
    return Found(records, lambda: print_table(rows, "The blob is empty."))


def _subscriptions(
    deployment: Deployment, topic: str | None, name: str | None
) -> list[_Subscription]:
    """Return the event subscriptions of a topic, or all, that have a dead-letter destination."""
    if topic and name:
        return [_Subscription(topic, name)]
    if topic:
        documents = deployment.subscriptions(topic)
    else:
        topics = (*deployment.namespace_topics(), *deployment.system_topics())
        documents = [*deployment.list("eventSubscriptions"), *deployment.subscriptions(*topics)]
    return [
        _Subscription(topic_of(each["id"]), each["name"])
        for each in documents
        if name is None or each["name"].casefold() == name.casefold()
        if destination_of(each["properties"], "deadLetterDestination")
    ]


def _named(subscriptions: Sequence[_Subscription]) -> str:
    if len(subscriptions) > _MOST_NAMED:
        return counted(len(subscriptions), "event subscription")
    return ", ".join(f"{each.topic}/{each.name}" for each in subscriptions)


def _with_answers(
    deployment: Deployment, path: str, records: Sequence[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Add the last attempt to each record of a subscription, as far as attempts are recorded."""
    times = [each["publishedAt"] for each in records if each.get("publishedAt")]
    known = {}
    if times:
        query = {"since": min(times), "$top": _MOST_EVENTS}
        for each in deployment.get(f"{path}/attempts", **query)["value"]:
            if each["attempts"]:
                known[each["eventId"], each["publishedAt"]] = each["attempts"][-1]
    for each in records:
        event_id = each.get("event", {}).get("id")  # of a damaged dead letter any JSON
        last = known.get((event_id, each["publishedAt"])) if isinstance(event_id, str) else None
        yield each | {"lastAttempt": last}


def _blobs(
    deployment: Deployment, subscription: _Subscription, query: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    for page in deployment.pages(f"{subscription.path}/deadLetters", **query):
        for each in page["value"]:
            yield {"topic": subscription.topic, "subscription": subscription.name, **each}


def _records(
    deployment: Deployment, blob: str, topic: str | None, name: str | None
) -> Iterator[dict[str, Any]]:
    """Read a blob, a page at a time, at whichever subscription has it."""
    asked = _subscriptions(deployment, topic, name)
    for each in asked:
        if (topic and name) or blob.startswith(f"{dead_letter_folder(*each)}/"):
            try:
                for page in deployment.pages(f"{each.path}/deadLetters/records", blob=blob):
                    yield from _with_answers(deployment, each.path, page["value"])
            except CommandFailed as error:
                if error.status != 404 or (topic and name):  # noqa: PLR2004 - not found
                    raise
            else:
                return
    raise CommandFailed(f"no event subscription has a dead-letter blob '{blob}'", REFUSED)


def _blob_row(blob: Mapping[str, Any]) -> dict[str, object]:
    reasons = [f"{reason} ({count})" for reason, count in blob["reasons"].items()]
    return {
        "WRITTEN": moment(blob["writtenAt"]),
        "TOPIC": topic_of(blob["topicId"]) if blob["topicId"] else blob["topic"],
        "SUBSCRIPTION": blob["subscription"],
        "EVENTS": blob["events"],
        "FIRST EVENT": blob.get("firstEvent"),
        "REASONS": blob["fault"] or reasons or None,
        "BLOB": blob["blob"],
    }


def _record_row(record: Mapping[str, Any]) -> dict[str, object]:
    event = record.get("event", {})
    outcome, status = record.get("lastOutcome"), record.get("lastStatus")
    return {
        "EVENT": _clipped(event.get("id")),
        "TYPE": _clipped(event.get("eventType") or event.get("type")),
        "SUBJECT": _clipped(event.get("subject")),
        "DATA": clip(json.dumps(event["data"], ensure_ascii=False), _MOST_DATA)
        if "data" in event
        else None,
        "REASON": f"unreadable: {record['fault']}" if record["fault"] else record["reason"],
        "ATTEMPTS": record.get("attempts"),
        "LAST OUTCOME": f"{outcome} ({status})" if status else outcome,
        "ANSWER": said(record["lastAttempt"]) or None if record["lastAttempt"] else None,
        "PUBLISHED": _moment(record.get("publishedAt")),
        "LAST ATTEMPT": _moment(record.get("lastAttemptAt")),
    }


def _clipped(member: object) -> str | None:
    return None if member is None else clip(str(member))


def _moment(time: str | None) -> str | None:
    return time and moment(time)


@dead_letters.command("export")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder of 'pushgrid serve'.",
)
@store_option
def export(folder: Path, data: Path | None, store: str | None) -> None:
    """
    Write the dead letters of a server, which may run, to FOLDER.

    Each blob is a file, byte for byte, below the name of its container; FILE.metadata beside it has
    its time, and its topic and reasons. 'pushgrid import' takes such a folder; of a storage
    account, 'az storage blob download-batch' writes one.
    """
    from cli.serving.copies import export_blobs  # not everybody has SQLite

    count = export_blobs(data, store, folder)
    say(f"{folder}: {counted(count, 'blob')}.")


for _command in (replay, jobs, cancel):
    dead_letters.add_command(_command)
