"""Reads a CloudEvent in binary mode: attributes from headers, data from the body."""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from shared.clip import clip
from shared.errors import InvalidEvents
from shared.events import strict_json
from shared.http import HttpRequest

_PREFIX = "ce-"
# In binary mode the body is the data, and Content-Type its content type.
_NEVER_SENT = ("ce-data", "ce-data_base64", "ce-datacontenttype")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


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


def read(request: HttpRequest, media: MediaType) -> dict[str, Any]:
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
