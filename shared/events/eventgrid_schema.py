"""Reads and validates events in Event Grid's schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.clip import clip
from shared.errors import Unauthenticated
from shared.events.event import Event
from shared.events.iso_8601 import is_iso_8601
from shared.events.literals import dumps
from shared.events.paths import fold_case
from shared.events.schema_rules import (
    Arrival,
    property_error,
    read_array,
    text_of,
    unexpected_property_error,
)
from shared.events.topic import InputSchema, Topic
from shared.http import HttpRequest
from shared.nearest import MISSPELT, nearest

_SCHEMA = InputSchema.EVENT_GRID
_REQUIRED = ("subject", "id", "eventType", "eventTime")  # in the order of the checks
_MAY_BE_EMPTY = frozenset({"subject"})
_OPTIONAL = ("topic", "dataVersion", "metadataVersion")
_KNOWN = frozenset({*_REQUIRED, *_OPTIONAL, "data"})
_BY_LETTERS = {fold_case(name): name for name in _KNOWN}
_METADATA_VERSION = "1"


def parse(request: HttpRequest, topic: Topic, _arrival: Arrival) -> tuple[Event, ...]:
    """
    Read an array of events, or a single one, regardless of the content type.

    All events are accepted or none. Names of members may have any case, and numbers, except in
    ``data``, become text. Members that are ``null`` count as missing, except ``data``. A missing or
    empty ``topic`` becomes the topic's id and ``metadataVersion`` ``1``; a missing ``dataVersion``
    becomes empty.

    Raises:
        InvalidEvents: the first fault of the events.
        TooLarge: an event is too large.
        Unauthenticated: they name another topic.

    Source: Event Grid "Event schema"; order of checks as observed (contract §1.2, §1.6).
    """
    events = tuple(build_event(event, topic) for event in read_array(_SCHEMA, request))
    for event in events:
        _check_topic(event, topic)
    return events


def build_event(event: dict[str, Any], topic: Topic) -> Event:
    """
    Return the event, completed in place; it may name any topic.

    Raises:
        InvalidEvents: its first fault.
    """
    if not event.keys() <= _KNOWN:
        event = _known_members(event)
    # Nobody else has the parsed members, so they are changed in place.
    _check(event)
    for name, stamp in (
        ("topic", topic.arm_id),
        ("dataVersion", ""),
        ("metadataVersion", _METADATA_VERSION),
    ):
        if not event.get(name):
            event[name] = stamp
    return Event(schema=_SCHEMA, members=event, text=dumps(event))


def documented_names(event: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the members of an event under their documented names, and unknown ones as they are.

    Raises:
        InvalidEvents: a member occurs in two spellings.

    Source: contract §1.2.
    """
    members: dict[str, Any] = {}
    for given, value in event.items():
        name = _BY_LETTERS.get(fold_case(given), given)
        if name in members:
            raise property_error(_SCHEMA, name, "to be set once, in one spelling")
        members[name] = value
    return members


def add_missing(event: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event with those of the *defaults* that it does not have in any spelling."""
    spelt = set(map(fold_case, event))
    missing = {name: value for name, value in defaults.items() if fold_case(name) not in spelt}
    return {**missing, **event}


def _known_members(event: Mapping[str, Any]) -> dict[str, Any]:
    members = documented_names(event)
    if not members.keys() <= _KNOWN:
        unknown = next(name for name in members if name not in _KNOWN)
        raise unexpected_property_error(_SCHEMA, unknown, _remedy(unknown, members))
    return members


def _remedy(unknown: str, members: Mapping[str, Any]) -> str:
    """Say what was meant by *members* of which one is *unknown*, if that can be told."""
    if "specversion" in members:
        return "The topic takes Event Grid's schema, not CloudEvents."
    near = nearest(unknown, _KNOWN, MISSPELT)
    return f"Event Grid's schema calls it '{near}'." if near else ""


def _check(event: dict[str, Any]) -> None:
    for name in _REQUIRED:
        value = event.get(name)
        if value is None or (value == "" and name not in _MAY_BE_EMPTY):
            raise property_error(_SCHEMA, name)
        if not isinstance(value, str):
            event[name] = text_of(_SCHEMA, name, value)
    if not is_iso_8601(event["eventTime"]):
        raise property_error(_SCHEMA, "eventTime", "to be a date and time in ISO 8601 form")
    _check_optional(event)


def _check_optional(event: dict[str, Any]) -> None:
    for name in _OPTIONAL:
        value = event.get(name)
        if value is not None and not isinstance(value, str):
            event[name] = text_of(_SCHEMA, name, value)
    if event.get("metadataVersion") not in {_METADATA_VERSION, "", None}:
        raise property_error(_SCHEMA, "metadataVersion", f"to be absent or '{_METADATA_VERSION}'")


def _check_topic(event: Event, topic: Topic) -> None:
    named = event.members["topic"]
    if named != topic.arm_id:
        raise Unauthenticated(
            f"The request is not authorized for the topic '{clip(named)}'."
            f" The property 'topic' must be absent or '{topic.arm_id}'."
        )
