"""Reads and validates CloudEvents 1.0 in all modes of the HTTP binding."""

from __future__ import annotations

import binascii
import re
from typing import Any

from shared.errors import UnsupportedMediaType
from shared.events import cloudevents_binary, strict_json
from shared.events.cloudevents_binary import MediaType
from shared.events.event import Event
from shared.events.iso_8601 import is_rfc_3339
from shared.events.literals import dumps
from shared.events.schema_rules import (
    Arrival,
    check_events,
    property_error,
    token_name,
    unexpected_property_error,
    wrong_token_error,
)
from shared.events.topic import InputSchema, Topic
from shared.http import HttpRequest

STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
PLAIN = "application/json"

_SCHEMA = InputSchema.CLOUD_EVENTS
_REQUIRED = ("id", "source", "type", "specversion")
_NAMES_IN_ERRORS = {"type": "eventType"}  # Event Grid reports CloudEvents' type under its own name
_OPTIONAL = ("time", "subject", "datacontenttype", "dataschema", "data_base64")
_NEVER_EMPTY = ("subject", "datacontenttype", "dataschema")
_KNOWN = frozenset({*_REQUIRED, *_OPTIONAL, "data"})
_EXTENSION = re.compile(r"[a-z0-9]{1,20}", re.ASCII)
_SPEC_VERSION = "1.0"


def parse(request: HttpRequest, _topic: Topic, _arrival: Arrival) -> tuple[Event, ...]:
    """
    Read the events of a request in structured, batch or binary mode.

    ``application/json`` is one structured event, or a binary one if there are ``ce-`` headers. All
    events are accepted or none. Attributes that are ``null`` count as missing and are removed.
    Nothing is added: ``source`` stays as published.

    Raises:
        UnsupportedMediaType: no mode has the content type.
        InvalidEvents: the first fault of the events.
        TooLarge: an event is too large.

    Source: CloudEvents v1.0.2, HTTP protocol binding and JSON format; contract §1.3.
    """
    return tuple(build_event(members) for members in check_events(_SCHEMA, _read(request), request))


def _read(request: HttpRequest) -> list[Any]:
    media = MediaType.parse(request.headers.get("content-type", ""))
    has_attributes = any(name.startswith("ce-") for name in request.headers)
    if media.name in {STRUCTURED, BATCH} and has_attributes:
        raise cloudevents_binary.header_error(
            f"The request has 'ce-' headers, which can't be combined with the Content-Type"
            f" '{media.name}'."
        )
    if has_attributes:
        return [cloudevents_binary.read(request, media)]
    if media.name not in {STRUCTURED, BATCH, PLAIN} or not media.is_utf8:
        raise UnsupportedMediaType(
            "The Content-Type header is either missing or it doesn't have a valid value. The"
            " content type header must either be application/cloudevents+json; charset=utf-8 or"
            " application/cloudevents-batch+json; charset=UTF-8."
        )
    value = strict_json.parse(request.body)
    expected = list if media.name == BATCH else dict
    if not isinstance(value, expected):
        raise wrong_token_error(_SCHEMA, token_name(expected()), token_name(value))
    return value if isinstance(value, list) else [value]


def build_event(members: dict[str, Any]) -> Event:
    """
    Return the event, without attributes that are ``null``.

    Raises:
        InvalidEvents: its first fault.
    """
    if None in members.values():
        members = {n: value for n, value in members.items() if value is not None or n == "data"}
    for name in _NEVER_EMPTY:
        if members.get(name) == "":
            del members[name]
    if not members.keys() <= _KNOWN:
        _check_extensions(members)
    _check_attributes(members)
    return Event(schema=_SCHEMA, members=members, text=dumps(members))


def _check_extensions(members: dict[str, Any]) -> None:
    for name, value in members.items():
        if name in _KNOWN:
            continue
        if not _EXTENSION.fullmatch(name):
            raise unexpected_property_error(_SCHEMA, name)
        if isinstance(value, dict | list):
            raise property_error(_SCHEMA, name, "to be a string, a number or a boolean")


def _check_attributes(members: dict[str, Any]) -> None:
    for name in _REQUIRED:
        if members.get(name, "") == "":
            raise property_error(_SCHEMA, _NAMES_IN_ERRORS.get(name, name))
    for name in (*_REQUIRED, *_OPTIONAL):
        if not isinstance(members.get(name, ""), str):
            raise property_error(_SCHEMA, _NAMES_IN_ERRORS.get(name, name), "to be a string")
    if members["specversion"] != _SPEC_VERSION:
        raise property_error(_SCHEMA, "specversion", f"to be '{_SPEC_VERSION}'")
    if "time" in members and not is_rfc_3339(members["time"]):
        raise property_error(_SCHEMA, "time", "to be a date and time in RFC 3339 form")
    if "data_base64" in members:
        _check_base64(members)


def _check_base64(members: dict[str, Any]) -> None:
    if "data" in members:
        raise property_error(_SCHEMA, "data_base64", "to be absent where 'data' is present")
    try:
        binascii.a2b_base64(members["data_base64"], strict_mode=True)
    except ValueError:  # binascii.Error, or not ASCII
        raise property_error(_SCHEMA, "data_base64", "to be base64") from None
