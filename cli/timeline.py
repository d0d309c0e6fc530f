"""`pushgrid timeline`: prints a line for each recorded attempt of an event, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import click

from cli.deployment import Deployment, subscription_path
from cli.failure import REFUSED
from cli.option_types import SINCE, WholeNumber
from cli.options import of_topic, prints_found, shows_most
from cli.output import moment
from cli.terminal import Found, counted, printable
from shared.clip import first_line
from shared.delivery.outcome import MOST_WORDS, answer_words

_HEADER = (
    f"{'when':>12}  {'UTC':<19}  {'#':>3}  {'answer':<24}  {'took':>8}  {'next':>12}  because of"
)


@click.command("timeline")
@of_topic
@click.option("--subscription", "-s", required=True, help="Event subscription.")
@click.option("--event", metavar="ID", help="Only the event with this publisher-assigned id.")
@click.option(
    "--since",
    type=SINCE,
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
    return Found(found, "\n\n".join([*parts, state]), 0 if events else REFUSED)


def _nothing(topic: str, subscription: str, event: str | None) -> str:
    of_event = f" of event '{event}'" if event else ""
    return (
        f"No failed attempt{of_event} is recorded for subscription '{subscription}' of topic "
        f"'{topic}' in this time.\nEvents delivered at the first attempt are recorded only if "
        "PUSHGRID_ATTEMPT_LOG is 'all'. Events held before their\nfirst attempt and events that "
        "the filters exclude have no record. Records are kept for a week."
    )


def table(event: Mapping[str, Any], now: datetime) -> str:
    """Return an event's timeline as text, with times since publish and in UTC."""
    published = datetime.fromisoformat(event["publishedAt"])
    name = "(gone)" if event["eventId"] is None else event["eventId"]
    since = f"{moment(published)}, {span(now - published)} ago"
    trace = f", trace {event['traceId']}" if event.get("traceId") else ""
    job = event.get("replayOf")
    replay = f", replay {job}" if job else ""
    ids = f"aeg-output-event-id {event['systemId']}{trace}{replay}"
    about = f"  {text}" if (text := about_text(event)) else ""
    title = f"{printable(name)}{about}  {'replayed' if job else 'published'} {since}  ({ids})"
    sent = [f"{'event':>12}  {printable(event['event'])}"] if event.get("event") else []
    lines = [title, *sent, _HEADER]
    for each in event["attempts"]:
        at, next_at = datetime.fromisoformat(each["at"]), _time(each["nextAt"])
        answer = f"{each['status'] or '-'} {each['outcome']}"
        next_in = span(next_at - published) if next_at else "-"
        detail = f" ({printable(each['detail'])})" if each["detail"] else ""
        lines.append(
            f"{span(at - published):>12}  {moment(at)}  {each['number']:>3}  {answer:<24}  "
            f"{each['seconds']:>6.2f} s  {next_in:>12}  {each['why'] or ''}{detail}".rstrip()
        )
        lines += [f"{'':>12}  | {line}" for line in answer_lines(each.get("answer"))]
    return "\n".join([*lines, _last_line(event, published, now)])


def about_text(event: Mapping[str, Any]) -> str:
    """Return the type and subject of an event, as far as they are known."""
    return " ".join(printable(event[name]) for name in ("eventType", "subject") if event.get(name))


def answer_lines(answer: Mapping[str, Any] | None) -> list[str]:
    """Return the endpoint's answer as it is shown: the kept headers, then the body."""
    if answer is None:
        return []
    if answer["body"] is None:
        return [f"(answered with the event of aeg-output-event-id {answer['systemId']})"]
    headers = [f"{name}: {value}" for name, value in answer["headers"].items()]
    body = answer["body"].splitlines() or ["(no body)"]
    more = ["… (only the beginning is kept)"] if answer["isTruncated"] else []
    return [printable(line) for line in [*headers, *body, *more]]


def said(failure: Mapping[str, Any]) -> str:
    """Return in one line what an endpoint said to a failed attempt, or why it said nothing."""
    answer = failure.get("answer")
    words = answer_words(answer["headers"], answer["body"]) if answer else ""
    return printable(words or first_line(failure["detail"] or "", MOST_WORDS))


def state_text(
    state: Mapping[str, Any] | None, since: datetime, now: datetime, *, shows_events: bool = False
) -> str:
    """
    Return a subscription's state as text: what holds events back, and what was counted.

    With *shows_events* some are shown that the counts may not have yet.
    """
    if state is None:
        return "The event subscription no longer exists."
    lines = _obstacles(state, now)
    if place := state.get("deadLetter"):
        where = f"container '{place['container']}' of storage account '{place['account']}'"
        lines.append(f"Dead letters: {where}.")
    counts = state["counts"]
    published = counted(counts["PublishSuccessCount"], "event")
    lines.append(
        f"Counted since {since:%Y-%m-%d %H:%M} (UTC), some seconds late: {published} "
        f"published, of which {counts['MatchedEventCount']} matched this subscription and "
        f"{counts['UnmatchedEventCount']} matched none; {counts['DeliverySuccessCount']} "
        f"delivered, {counts['DeadLetteredCount']} dead-lettered, {counts['DroppedEventCount']} "
        "dropped."
    )
    has_matched = counts["MatchedEventCount"] or shows_events
    if counts["PublishSuccessCount"] and not has_matched and not state.get("expiredAt"):
        lines.append("Its filters matched none of them.")
    return "\n".join(lines)


def _obstacles(state: Mapping[str, Any], now: datetime) -> list[str]:
    lines = []
    if expired := state.get("expiredAt"):
        then = moment(expired)
        lines.append(f"Expired at {then}: it gets no more events, and those that wait are dropped.")
    if pending := state.get("validation"):
        lead = "" if state["hasConsented"] else "Not delivering: "
        lines.append(printable(f"{lead}{pending['why']} {pending['remedy']}"))
    if paused := state.get("paused"):
        since_then = moment(paused["since"])
        by = printable(paused["by"])
        lines.append(f"Paused since {since_then} by {by}: its events wait until it is resumed.")
    if (held := state["held"]) and (until := _time(held["until"])):
        left = span(timedelta(seconds=max(round((until - now).total_seconds()), 0)))
        lines.append(f"Held: the endpoint is sent nothing for another {left} ({held['why']}).")
    elif held:
        lines.append(f"Held, and one event is sent first as a probe ({printable(held['why'])}).")
    return lines


def _last_line(event: Mapping[str, Any], published: datetime, now: datetime) -> str:
    if end := event["end"]:
        at = datetime.fromisoformat(end["at"])
        reason = f": {end['reason']} ({end['why']})" if end["reason"] else ""
        text = f"{end['state']}{reason}"
        if due := _time(end["blobDueAt"]):
            text = f"given up{reason}; its blob {'is' if due > now else 'was'} due at {moment(due)}"
        return f"{span(at - published):>12}  {moment(at)}  {text}"
    next_at = _time(event["attempts"][-1]["nextAt"]) if event["attempts"] else None
    if next_at and next_at > now:
        return f"{'':>12}  waiting: the next attempt is due in {span(next_at - now)}"
    return f"{'':>12}  no failure recorded since: the event was delivered or is held"


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def span(time: timedelta) -> str:
    """Format a duration as 1:46:40.2, to a tenth of a second."""
    tenths = round(time / timedelta(seconds=0.1))
    whole, tenth = divmod(max(tenths, 0), 10)
    text = str(timedelta(seconds=whole))
    return f"{text}.{tenth}" if tenth else text
