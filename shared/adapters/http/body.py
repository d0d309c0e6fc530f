"""Reads the body of a response: what comes promptly, up to a limit. No outcome depends on it."""

from __future__ import annotations

import re
from contextlib import suppress

from shared.adapters.http.answer import Head, malformed
from shared.adapters.http.connection import HttpConnection, NoAnswer

MAX_BODY = 64 * 1024
_MAX_CHUNK_LINE = 1024
_MAX_RAW_BODY = 4 * MAX_BODY  # tiny chunks cost more than they carry
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;.*)?\r?\n")
_LENGTH = re.compile(r"[0-9]{1,18}")
_WITHOUT_BODY = frozenset({204, 304})


def read_body(connection: HttpConnection, head: Head, deadline: float) -> tuple[bytes, bool]:
    """
    Read at most the first 64 KiB of the body; return it and whether it came to its proper end.

    Any error only ends the reading: the head has decided the outcome.
    """
    body = _Body(connection, deadline)
    complete = False
    # Broken, late or malformed: the outcome stays, the connection goes.
    with suppress(NoAnswer):
        complete = body.read(head)
    return bytes(body.content), complete


class _Body:
    def __init__(self, connection: HttpConnection, deadline: float) -> None:
        self._connection = connection
        self._buffer = connection.buffer
        self._deadline = deadline
        self._raw_left = _MAX_RAW_BODY
        self.content = bytearray()

    def read(self, head: Head) -> bool:
        if head.status in _WITHOUT_BODY:
            return True
        coding = head.headers.get("transfer-encoding")
        length = head.headers.get("content-length")
        if coding is not None:
            # A length beside it is an attempt at smuggling: such a connection is not used again.
            chunked = coding.lower() == "chunked"
            return (self._chunks() and length is None) if chunked else self._rest()
        if length is not None and (size := _length(length)) is not None:
            return self._take(size)
        return self._rest()

    def _fill(self) -> bool:
        before = len(self._buffer)
        more = self._connection.receive(self._deadline)
        self._raw_left -= len(self._buffer) - before
        if self._raw_left < 0:
            raise malformed("far more framing than content")
        return more

    def _take(self, size: int) -> bool:
        """Move *size* bytes to the content; ``False`` if the end or our limit comes first."""
        while True:
            part = self._buffer[: min(size, MAX_BODY - len(self.content))]
            self.content += part
            del self._buffer[: len(part)]
            size -= len(part)
            if size == 0:
                return True
            if len(self.content) == MAX_BODY or not self._fill():
                return False

    def _rest(self) -> bool:
        """Read until the peer closes, which leaves nothing to use again."""
        self._take(MAX_BODY)
        return False

    def _chunks(self) -> bool:
        while True:
            size = _CHUNK_SIZE.fullmatch(self._line())
            if size is None:
                return False
            if (left := int(size[1], 16)) == 0:
                break
            if not self._take(left) or self._line().strip():
                return False
        while self._line().strip():
            pass  # Trailers are not used.
        return True

    def _line(self) -> bytes:
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > _MAX_CHUNK_LINE or not self._fill():
                raise malformed("no end of a line in a chunked body")
        line = bytes(self._buffer[: end + 1])
        del self._buffer[: end + 1]
        return line


def _length(text: str) -> int | None:
    values = {value.strip() for value in text.split(",")}
    value = values.pop()
    return int(value) if not values and _LENGTH.fullmatch(value) else None
