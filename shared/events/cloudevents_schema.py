"""Reads and validates CloudEvents 1.0 in all modes of the HTTP binding."""

from __future__ import annotations

import binascii
import re
from base64 import b64encode
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from shared.clip import clip
from shared.errors import InvalidEvents, UnsupportedMediaType
from shared.events import strict_json
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
_BY_LETTERS = {name.replace("_", ""): name for name in _KNOWN}
_BY_LETTERS |= {"eventtype": "type", "eventtime": "time"}  # Event Grid's names
_EXTENSION = re.compile("[a-z0-9]+")
_NO_LETTER = re.compile("[^a-z0-9]")
_SPEC_VERSION = "1.0"

_PREFIX = "ce-"
# In binary mode the body is the data, and Content-Type its content type.
_NEVER_SENT = ("ce-data", "ce-data_base64", "ce-datacontenttype")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def parse(request: HttpRequest, _topic: Topic, _arrival: Arrival) -> tuple[Event, ...]:
    """
    Read the events of a request in structured, batch or binary mode.

    ``application/json`` is one structured event, or a binary one if there are ``ce-`` headers. All
    events are accepted or none. Names are exact: the refusal of another spelling tells the right
    one. Attributes that are ``null`` count as missing and are removed. Nothing is added: ``source``
    stays as published.

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
        raise header_error(
            f"The request has 'ce-' headers, which can't be combined with the Content-Type"
            f" '{media.name}'."
        )
    if has_attributes:
        return [_read_binary(request, media)]
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
            raise unexpected_property_error(_SCHEMA, name, _right_name(name))
        if isinstance(value, dict | list):
            raise property_error(_SCHEMA, name, "to be a string, a number or a boolean")


def _right_name(name: str) -> str:
    """Say what CloudEvents calls a member that is misspelt. Source: v1.0.2, 3.1."""
    if known := _BY_LETTERS.get(_NO_LETTER.sub("", name.lower())):
        return f"CloudEvents calls it '{known}'."
    return "Names of extensions have only small letters and digits."


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


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaType:
    """A media type and its charset, both lower-case."""

    name: str
    charset: str = "utf-8"

    @classmethod
    def parse(cls, header: str) -> MediaType:
        """Parse the value of Content-Type; a malformed one gives an unknown name."""
        name, *parameters = header.split(";")
        charset = "utf-8"
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            if key.strip().lower() == "charset":
                charset = value.strip().strip('"').lower()
        return cls(name=name.strip().lower(), charset=charset)

    @property
    def is_utf8(self) -> bool:
        return self.charset in {"utf-8", "utf8", "us-ascii"}

    @property
    def is_json(self) -> bool:
        return self.name.endswith(("/json", "+json"))

    @property
    def is_text(self) -> bool:
        return self.name.startswith("text/")


def _read_binary(request: HttpRequest, media: MediaType) -> dict[str, Any]:
    """
    Return the event in its structured form; the attributes are not validated yet.

    JSON and UTF-8 text become ``data``, other content ``data_base64``; an empty body gives neither.

    Raises:
        InvalidEvents: a header is malformed or not allowed, or the data is not valid JSON though
            its content type says so.

    Source: CloudEvents v1.0.2, HTTP protocol binding, 3.1 Binary content mode.
    """
    for name in _NEVER_SENT:
        if name in request.headers:
            raise header_error(f"The header '{name}' can't be sent in binary mode.")
    members: dict[str, Any] = {
        name.removeprefix(_PREFIX): _decode(name, value)
        for name, value in request.headers.items()
        if name.startswith(_PREFIX)
    }
    if media.name:
        members["datacontenttype"] = _check_encodable(
            "content-type", request.headers["content-type"]
        )
    return members | (_data(request.body, media) if request.body else {})


def header_error(message: str) -> InvalidEvents:
    """Build the error about a header of a CloudEvent."""
    return InvalidEvents(message, detail_code="InvalidCloudEventHeader")


def _data(body: bytes, media: MediaType) -> dict[str, Any]:
    if media.is_json and media.is_utf8:
        return {"data": strict_json.parse(body)}
    if media.is_text and media.is_utf8:
        try:
            return {"data": body.decode()}
        except UnicodeDecodeError:
            pass  # Not UTF-8 after all: base64 preserves it.
    return {"data_base64": b64encode(body).decode()}


def _decode(name: str, value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] == '"':
        value = _ESCAPED.sub(r"\1", value[1:-1])
    try:
        value = unquote(value, errors="strict")
    except UnicodeDecodeError:
        raise _encoding_error(name) from None
    return _check_encodable(name, value)


def _check_encodable(name: str, value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _encoding_error(name) from None
    return value


def _encoding_error(name: str) -> InvalidEvents:
    return header_error(f"The header '{clip(name)}' is not percent-encoded UTF-8.")
