"""Narrates a local host's log: each line becomes an activity, or nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from cli.terminal import counted, printable

Entry = Mapping[str, Any]

_LEVELS = {"WARNING": "warning", "ERROR": "error", "CRITICAL": "error"}
# As devhost.log prints them: a record of the app, and a line of the host itself.
_RECORD = re.compile(r"[\d:.]{12} (DEBUG|INFO|WARNING|ERROR|CRITICAL) +(.*)")
_OF_HOST = re.compile(r"[\d:.]{12} (.*)")
_SUCCESS = re.compile(r"\w+ +ok  ")
_LISTED = re.compile(r"  \w+  +(?!ERROR)")  # a function that the host serves, at its start
# With its last line the host says why it ends; so does the command that runs it.
_EXPECTED = ("ready ", "storage ", "blobs ", "export ", "Stopping", "devhost: ")
_JSON = '{"event":"'
_WAITS = ("next_attempt_at", "until", "held_until")
PAUSED = "paused since"  # how the reason of a manual pause begins


class NarratedLine(NamedTuple):
    """What happened, on one line."""

    kind: str
    about: str  # a topic, or a topic and its event subscription: ``orders/crm``
    text: str
    events: str = ""  # their names
    entry: Entry = MappingProxyType({})  # the log entry that says it


def narrates_wait(entry: Entry) -> bool:
    """Tell whether an entry names a wait of Event Grid's, which a time scale divides."""
    is_paused = str(entry.get("held_because")).startswith(PAUSED)
    return not is_paused and any(entry.get(name) for name in _WAITS)


def narrate(line: str) -> NarratedLine | None:
    """Return what a line of the host's log says, or None if nobody waits to hear it."""
    entry = _entry(line)
    if entry and (told := _told(entry)):
        return told
    if record := _RECORD.match(line):
        kind = _LEVELS.get(record[1])
        return NarratedLine(kind, "", printable(record[2]), entry=entry or {}) if kind else None
    of_host = _OF_HOST.match(line)
    text = of_host[1] if of_host else line
    is_expected = text.startswith(_EXPECTED) or _SUCCESS.match(text) or _LISTED.match(text)
    if is_expected or not text.strip():
        return None
    return NarratedLine("error", "", text.expandtabs())


def _entry(line: str) -> Entry | None:
    start = line.find(_JSON)
    if start < 0:
        return None
    try:
        entry: Entry = json.loads(line[start:])
    except ValueError:
        return None
    return entry


def _told(entry: Entry) -> NarratedLine | None:
    kind, tell = _NARRATED.get(entry["event"], ("", None))
    try:
        text = tell(entry) if tell else None
    except (KeyError, TypeError, ValueError):  # not as this version of the app writes it
        return None
    if not text:
        return None
    about = "/".join(str(entry[name]) for name in ("topic", "subscription") if name in entry)
    if kind == "retry" and entry["decision"] == "end":
        kind = "given up"
    return NarratedLine(kind, printable(about), printable(text), _events(entry), entry)


def _events(entry: Entry) -> str:
    if known := entry.get("event_id"):
        return printable(str(known))
    count = entry.get("count", 0)
    return counted(count, "event") if "event_ids" in entry and count > 1 else ""


def _published(entry: Entry) -> str:
    events, unmatched = counted(entry["events"], "event"), entry["unmatched"]
    if not entry["deliveries"]:
        return f"{events}, matched by no event subscription; answered 200"
    stored = (
        f"{counted(entry['deliveries'], 'delivery')} in {counted(entry['messages'], 'message')}"
    )
    missed = f" ({unmatched} matched by no event subscription)" if unmatched else ""
    return f"{events}{missed}: stored {stored}, then answered 200"


def _refused(entry: Entry) -> str:
    unknown = ": there is no such topic" if entry.get("unknown_topic") else ""
    detail = f": {entry['detail']}" if entry.get("detail") else ""
    return f"{entry['status']} {entry['code']}{unknown}{detail}"


def _attempted(entry: Entry) -> str:
    text = f"attempt {entry['attempt']}: {entry.get('status', '-')} {entry['outcome']}"
    text += f": {entry['answer']}" if entry.get("answer") else ""
    detail = f" ({entry['detail']})" if entry.get("detail") else ""
    if entry["decision"] == "retry":
        due = _time_of_day(entry["next_attempt_at"])
        return f"{text}{detail}; next at {due}, because of {entry['why']}"
    return f"{text}{detail}; {_no_more(entry)}"


def _no_more(entry: Entry) -> str:
    return f"no more attempts ({entry['why']}): {entry['reason']}"


def _succeeded(entry: Entry) -> str:
    return f"attempt {entry['attempt']}: {entry['status']} in {entry['duration_ms']} ms"


def _answered_late(entry: Entry) -> str:
    effect = "its retry is cancelled" if entry["cancelled"] else "its retry had begun: a duplicate"
    return f"{entry['status']} after {entry['seconds']:g} s; {effect}"


def _held(entry: Entry) -> str | None:
    if not entry.get("held_until"):
        return None
    if entry["held_because"].startswith(PAUSED):
        return f"events wait: {entry['held_because']}"
    until = _time_of_day(entry["held_until"])
    return f"{counted(entry.get('held', 0), 'event')} until {until}: {entry['held_because']}"


def _hold_began(entry: Entry) -> str:
    if "until" not in entry:
        return f"paused by {entry['by']}: its events wait until it is resumed"
    return f"endpoint gets nothing before {_time_of_day(entry['until'])}: {entry['why']}"


def _hold_ended(entry: Entry) -> str:
    by = f" by {entry['by']}" if "by" in entry else ""
    return f"endpoint gets events again, after {entry['seconds']:g} s: {entry['because']}{by}"


def _dead_lettered(entry: Entry) -> str:
    blob = "/".join(entry[name] for name in ("account", "container", "path") if name in entry)
    return f"{counted(entry['count'], 'event')} in {blob}"


def _dropped(entry: Entry) -> str:
    return f"{counted(entry['count'], 'event')}: {entry['reason']}"


def _handshake_asked(entry: Entry) -> str:
    text = f"asking {entry['url']} for consent"
    if entry["attempt"] == 1:
        return f"{text} (up to {entry['longest_seconds']:g} s)"
    return f"{text}, try {entry['attempt']} of {entry['attempts']}, after: {entry['failure']}"


def _handshake_pending(entry: Entry) -> str:
    return f"{entry['why']} {entry['remedy']}"


def _handshake_failed(entry: Entry) -> str:
    detail = f" ({entry['detail']})" if entry.get("detail") else ""
    said = f" The endpoint answered: {entry['answer']}" if entry.get("answer") else ""
    return f"failed: {_handshake_pending(entry)}{said}{detail}"


def _unsigned(entry: Entry) -> str:
    command = f"pushgrid subscription update {entry['subscription']} --topic {entry['topic']}"
    return f"was signed until an update by {entry['by']}; to sign again: {command} --sign"


def _replay_started(entry: Entry) -> str:
    to = f" to {entry['to']}" if entry.get("to") else ""
    what = "dry run of a replay" if entry.get("dry_run") else "replay"
    return f"{what}{to} started by {entry['by']}: {entry['job']}"


def replay_state(job: Mapping[str, Any]) -> str:
    """Return the word for the state of a replay, or of its end as it is logged."""
    # A source that was given up fails a job; the events of others were read.
    return "Done in part" if job["state"] == "Failed" and job["events"] else str(job["state"])


def _replay_ended(entry: Entry) -> str:
    sent = "would be sent" if entry.get("dry_run") else "queued"
    counts = f"{counted(entry['replayed'], 'event')} {sent}, {entry['skipped']} skipped"
    faults = f", {counted(entry['faults'], 'fault')}" if entry["faults"] else ""
    why = f" ({entry['detail']})" if entry.get("detail") else ""
    return f"{replay_state(entry)}: {counts}{faults}{why}: {entry['job']}"


def _unknown_setting(entry: Entry) -> str:
    nearest = f"; did you mean {entry['nearest']}?" if entry.get("nearest") else ""
    return f"{entry['setting']} does not exist{nearest}"


def _time_of_day(at: str) -> str:
    return datetime.fromisoformat(at).astimezone().isoformat(timespec="milliseconds")[11:21]


# The log events that are narrated: their kind, and the text.
_NARRATED: dict[str, tuple[str, Callable[[Entry], str | None]]] = {
    "event.published": ("published", _published),
    "publish.refused": ("refused", _refused),
    "delivery.succeeded": ("delivered", _succeeded),
    "delivery.answered_late": ("delivered", _answered_late),
    "delivery.attempted": ("retry", _attempted),
    "delivery.ended": ("given up", _no_more),
    "delivery.run": ("held", _held),
    "hold.began": ("held", _hold_began),
    "hold.ended": ("released", _hold_ended),
    "delivery.dropped": ("dropped", _dropped),
    "deadletter_batch": ("dead-lettered", _dead_lettered),
    "replay.started": ("replay", _replay_started),
    "replay.ended": ("replay", _replay_ended),
    "handshake.granted": ("handshake", lambda _: "accepted"),
    "handshake.asked": ("handshake", _handshake_asked),
    "handshake.awaited": ("handshake", _handshake_pending),
    "handshake.failed": ("handshake", _handshake_failed),
    "subscription.unsigned": ("unsigned", _unsigned),
    "settings.invalid": ("settings", lambda entry: str(entry["detail"])),
    "setting.unresolved": ("settings", lambda entry: f"{entry['setting']}: {entry['detail']}"),
    "setting.unknown": ("settings", _unknown_setting),
}
