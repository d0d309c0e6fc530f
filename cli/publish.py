"""`pushgrid publish`: publishes events from options, a file or standard input."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, TextIO

import click

from cli.deployment import Deployment, topic_path
from cli.failure import CommandFailed
from cli.option_types import CLOUD_EVENTS, EVENT_GRID, SchemaName
from cli.options import prints_found
from cli.output import Console
from cli.terminal import Found, counted, printable, say
from shared.clip import clip
from shared.events.data_plane import CUSTOM, NAMESPACE
from shared.events.eventgrid_schema import add_missing, documented_names

Match = Mapping[str, Any]  # as ``…/matches`` answers it
_CUSTOM = "CustomEventSchema"
_JSON_BEGINS = ("{", "[", '"')
_MOST_BYTES = 1_000_000  # of one request
_MOST_TOLD = 5  # event subscriptions without a match


class _PublishUrl(NamedTuple):
    url: str
    key_header: tuple[str, str]
    schema: str
    remedy: str = ""  # if the key is refused


@click.command("publish")
@click.argument("topic")
@click.argument("file", type=click.File("r", encoding="utf-8-sig"), required=False)
@click.option("--type", "kind", help="Type of the event.")
@click.option("--subject", help="Subject of the event.")
@click.option("--data", help="Data of the event: JSON, or plain text.")
@click.option(
    "--text",
    "is_text",
    is_flag=True,
    help="Publish the data as text, even if it looks like JSON.",
)
@click.option("--id", "event_id", help="Id of the event; the default is a new one.")
@click.option(
    "--source", default="/pushgrid/cli", show_default=True, help="Source of a CloudEvent."
)
@click.option(
    "--schema",
    type=SchemaName(EVENT_GRID, CLOUD_EVENTS),
    help="Schema of the event; the default is the topic's, with --key Event Grid's.",
)
@click.option(
    "--key",
    "topic_key",
    help="Key of the topic or its namespace, or a shared access signature; by default, the key is "
    "read with the admin key.",
)
@prints_found
def publish(
    deployment: Deployment,
    topic: str,
    file: TextIO | None,
    kind: str | None,
    subject: str | None,
    data: str | None,
    is_text: bool,
    event_id: str | None,
    source: str,
    schema: str | None,
    topic_key: str | None,
) -> Found:
    """
    Publish events to TOPIC, or NAMESPACE.TOPIC.

    FILE has events as JSON: one, a list, or one per line; '-' is standard input. Missing members
    that the schema requires are added: id, time and version. Without FILE, the options describe one
    event. Data is JSON if it can be parsed, and text otherwise; data that begins with {, [ or a
    double quote must be JSON, unless --text is given.
    """
    if not file and not kind:
        raise click.UsageError("Give a FILE, or --type.")
    if file and (is_text or any(each is not None for each in (kind, subject, data, event_id))):
        raise click.UsageError("--type, --subject, --data, --text and --id are not for a FILE.")
    _refuse_source(topic)
    value = data if is_text else _data(data)
    described = {"type": kind, "subject": subject, "data": value, "id": event_id}
    target = _target(deployment, topic, schema, topic_key or None)
    if target.schema == _CUSTOM and not file:
        raise CommandFailed(f"{topic} has a schema of its own: give a FILE")
    given = _read(file) if file else [described]
    events = [_completed(each, target.schema, source) for each in given]
    _send(deployment, target, events, _most_events(topic))
    matched = () if topic_key else _matched(deployment, topic, events)
    if matched and not any(each["matched"] for each in matched):
        _warn(topic, matched)
    ids = [_id(each, target.schema) for each in events]
    is_named = len(events) == 1 and ids[0] is not None
    what = f"event {clip(str(ids[0]))}" if is_named else counted(len(events), "event")
    count = sum(bool(each["matched"]) for each in matched) if matched else None
    found = f"; {counted(count, 'event subscription')} matched" if count is not None else ""
    document = {"ids": ids, "matched": count}  # None: not known
    return Found(document, f"published {what} to {topic}{found}")


def _warn(topic: str, matched: Sequence[Match]) -> None:
    """Say of each event subscription, the closest first, why no event matches."""
    closest = sorted(matched, key=lambda each: -int(each["passed"]))
    whys = [printable(f"{each['subscription']}: {each['why']}") for each in closest[:_MOST_TOLD]]
    if more := len(closest) - len(whys):
        whys.append(
            f"and {more} more: 'pushgrid explain --topic {topic} --event FILE' tells of each"
        )
    text = "".join(f"\n  {each}" for each in whys) if whys[1:] else f"; {whys[0]}"
    say(f"warning: no event subscription matched{text}", err=True, colour="yellow")


def _refuse_source(topic: str) -> None:
    if topic.lower().startswith(("system-", "systemtopics/")):
        raise CommandFailed(
            f"'{topic}' is a source of events or a system topic over one, and takes no others: "
            "name a custom topic, or NAMESPACE.TOPIC"
        )


def completed_events(deployment: Deployment, topic: str, file: TextIO) -> list[dict[str, Any]]:
    """
    Read the events in *file* as `publish` would send them to *topic*, nothing missing.

    Raises:
        CommandFailed: there are none, or the topic can't be read.
    """
    _refuse_source(topic)
    properties = {} if "." in topic else deployment.get(topic_path(topic))["properties"]
    schema = properties.get("inputSchema") or (CLOUD_EVENTS if "." in topic else EVENT_GRID)
    return [_completed(each, schema, "/pushgrid/cli") for each in _read(file)]


def matches_of(
    deployment: Deployment, topic: str, events: Sequence[dict[str, Any]]
) -> Sequence[Match]:
    """Return how many of the events each event subscription gets, or why it gets none."""
    found: dict[str, Match] = {}
    for _, body in _requests(events, _most_events(topic)):
        for each in deployment.post(f"{topic_path(topic)}/matches", json.loads(body))["value"]:
            before = found.get(each["subscription"])
            matched = each["matched"] + (before["matched"] if before else 0)
            closest = max(before or each, each, key=lambda match: match["passed"])
            found[each["subscription"]] = {**closest, "matched": matched}
    return [*found.values()]


def _matched(
    deployment: Deployment, topic: str, events: Sequence[dict[str, Any]]
) -> Sequence[Match]:
    """Return what `matches_of` does; empty if that can't be read: they are published."""
    nobody = {"subscription": topic, "matched": 0, "passed": 0}
    try:
        found = matches_of(deployment, topic, events)
    except CommandFailed:
        return ()
    return found or [nobody | {"why": "it has no event subscription"}]


def _send(
    deployment: Deployment, target: _PublishUrl, events: Sequence[dict[str, Any]], most: int
) -> None:
    many = "application/cloudevents-batch+json"
    content_type = many if target.schema == CLOUD_EVENTS else "application/json"
    headers = dict([target.key_header, ("Content-Type", content_type)])
    done, total = 0, len(events)
    with Console(stderr=True).status("publishing …") as progress:
        try:
            for count, body in _requests(events, most):
                deployment.quiet.publish(target.url, headers, body, target.remedy)
                done += count
                progress.update(f"published {done} of {total} events …")
        except (CommandFailed, KeyboardInterrupt):
            if done:
                say(f"The first {done} of {total} events are published.", err=True)
            raise


def _target(deployment: Deployment, topic: str, schema: str | None, key: str | None) -> _PublishUrl:
    """Return where a topic is published to; a *key* that is given is not looked up."""
    url, remedy = deployment.publish_url(topic), ""
    if key is None:
        path = topic_path(topic)
        schema = schema or deployment.get(path)["properties"].get("inputSchema")
        key = str(deployment.post(f"{path}/listKeys")["key1"])
    elif not (key.isascii() and key.isprintable()):
        raise CommandFailed("the key has characters that no request can carry")
    else:
        remedy = f"'pushgrid topic keys {topic}' prints its keys; without --key, one is asked for."
    if "." in topic:
        return _PublishUrl(url, ("Authorization", f"SharedAccessKey {key}"), CLOUD_EVENTS, remedy)
    is_signature = key.startswith("r=") and "&s=" in key
    header = "aeg-sas-token" if is_signature else "aeg-sas-key"
    return _PublishUrl(url, (header, key), schema or EVENT_GRID, remedy)


def _read(file: TextIO) -> list[dict[str, Any]]:
    name = getattr(file, "name", "standard input")
    try:
        text = file.read()
    except UnicodeDecodeError:
        raise CommandFailed(f"{name}: it is not UTF-8") from None
    try:
        found = json.loads(text)
        events = found if isinstance(found, list) else [found]
    except ValueError:
        events = _lines(name, text)
    if not events or not all(isinstance(each, dict) for each in events):
        raise CommandFailed(f"{name}: there are no events in it: objects are wanted")
    return events


def _lines(name: str, text: str) -> list[Any]:
    events = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            events.append(json.loads(line))
        except ValueError as error:
            raise CommandFailed(f"{name}, line {number}: not JSON: {error}") from None
    return events


def _data(text: str | None) -> Any:
    try:
        return json.loads(text) if text is not None else None
    except ValueError as error:
        if text and text.lstrip().startswith(_JSON_BEGINS):
            raise CommandFailed(f"--data: not JSON: {error}; for text, add --text") from None
        return text


def _completed(given: dict[str, Any], schema: str, source: str) -> dict[str, Any]:
    """Add the members that *schema* requires and that are missing; own schemas stay as they are."""
    if schema == _CUSTOM:
        return given
    return _cloud_event(given, source) if schema == CLOUD_EVENTS else _event_grid_event(given)


def _event_grid_event(given: dict[str, Any]) -> dict[str, Any]:
    defaults = {
        "id": str(uuid.uuid4()),
        "eventType": given.get("type"),
        "subject": "",
        "eventTime": _now(),
        "data": None,
        "dataVersion": "",
    }
    given = {name: value for name, value in given.items() if name != "type" and value is not None}
    return add_missing(given, defaults)


def _id(event: Mapping[str, Any], schema: str) -> Any:
    """Return the id under which an event is delivered; ``None``: the topic gives it one."""
    if schema != EVENT_GRID:
        return event.get("id")
    found = documented_names(event).get("id")
    return json.dumps(found) if isinstance(found, int | float) else found


def _cloud_event(given: dict[str, Any], source: str) -> dict[str, Any]:
    event = {"specversion": "1.0", "id": str(uuid.uuid4()), "source": source, "time": _now()}
    return event | {name: value for name, value in given.items() if value is not None}


def _most_events(topic: str) -> int:
    return (NAMESPACE if "." in topic else CUSTOM).max_events


def _requests(events: Sequence[dict[str, Any]], most: int) -> list[tuple[int, bytes]]:
    """Divide events into as few requests as the limits allow: how many, and the body."""
    requests: list[list[bytes]] = [[]]
    size = 0
    for number, event in enumerate(events, 1):
        try:
            line = json.dumps(event, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise CommandFailed(f"event {number}: half of a surrogate pair is not text") from None
        if size + len(line) > _MOST_BYTES or len(requests[-1]) == most:
            requests.append([])
            size = 0
        requests[-1].append(line)
        size += len(line) + 1
    return [(len(lines), b"[" + b",".join(lines) + b"]") for lines in requests if lines]


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")
