"""Reading an answer: a strict head within its deadline, then what comes promptly of the body."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import NamedTuple

from shared.adapters.http_connection import Connection
from shared.adapters.http_failure import NoAnswer
from shared.http import Failure

MAX_BODY = 64 * 1024
_MAX_HEAD = 64 * 1024
_MAX_HEADERS = 100
_MAX_CHUNK_LINE = 1024
_MAX_RAW_BODY = 4 * MAX_BODY  # tiny chunks cost more than they carry
_END = re.compile(rb"\n\r?\n")
_BEGINNING = b"HTTP/1."
_STATUS = re.compile(r"HTTP/1\.([0-9]) ([1-9][0-9]{2})(?: .*)?")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_ILLEGAL = re.compile(r"[\r\0]")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;.*)?\r?\n")
_LENGTH = re.compile(r"[0-9]{1,18}")
_KEEP_FOR = re.compile(r"timeout\s*=\s*([0-9]{1,6})")
_SWITCHING = 101
_FIRST_FINAL = 200
_WITHOUT_BODY = frozenset({204, 304})


class Head(NamedTuple):
    """Status and headers; *stays_open* if the peer means to keep the connection."""

    status: int
    headers: dict[str, str]
    stays_open: bool

    @property
    def keep_for(self) -> float | None:
        """How many seconds the peer keeps an idle connection, if it says so."""
        said = _KEEP_FOR.search(self.headers.get("keep-alive", ""))
        return float(said[1]) if said else None


def read_head(connection: Connection, deadline: float) -> Head:
    """
    Read up to the end of the headers of the final response; informational ones are skipped.

    Raises:
        NoAnswer: no complete head until the deadline, or the connection ended before, or what
            arrived is not HTTP/1 within our limits.
    """
    allowance = _MAX_HEAD
    while True:
        block = _read_block(connection, deadline, allowance)
        head = parse_head(block)
        if head.status >= _FIRST_FINAL:
            return head
        if head.status == _SWITCHING:
            raise _malformed("switches to a protocol nobody asked for")
        allowance -= len(block)


def _read_block(connection: Connection, deadline: float, allowance: int) -> bytes:
    buffer = connection.buffer
    searched = 0
    while True:
        if found := _END.search(buffer, searched):
            block = bytes(buffer[: found.end()])
            if len(block) > allowance:
                raise _malformed("head too large")
            del buffer[: found.end()]
            return block
        if not buffer.startswith(_BEGINNING[: len(buffer)]):
            raise _malformed("does not begin with HTTP/1")
        if len(buffer) > allowance:
            raise _malformed("head too large")
        searched = max(0, len(buffer) - 2)
        if not connection.receive(deadline):
            raise NoAnswer(Failure.SOCKET, "closed before a complete response head")


def parse_head(block: bytes) -> Head:
    """
    Parse one response head, up to and including its empty line.

    Lines may end with a bare LF, and a folded line continues the one before (RFC 9112, 2.2 and
    5.2). Values of a repeated name are joined with commas.

    Raises:
        NoAnswer: it is not a head of HTTP/1.
    """
    lines = block.decode("latin-1").split("\n")
    status = _STATUS.fullmatch(lines[0].removesuffix("\r"))
    if status is None:
        raise _malformed("no HTTP/1 status line")
    if len(lines) - 3 > _MAX_HEADERS:
        raise _malformed("too many headers")
    headers: dict[str, str] = {}
    name = ""
    for line in lines[1:-2]:
        if line.startswith((" ", "\t")) and name:
            headers[name] = f"{headers[name]} {line.strip()}"
            continue
        name, colon, value = line.partition(":")
        if not colon or not _TOKEN.fullmatch(name):
            raise _malformed("a header line that is none")
        name, value = name.lower(), value.strip(" \t\r")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    if _ILLEGAL.search("".join(headers.values())):
        raise _malformed("NUL or a lone CR in a header")
    return Head(int(status[2]), headers, _stays_open(status[1], headers.get("connection")))


def _stays_open(minor: str, connection: str | None) -> bool:
    if connection is None:
        return minor != "0"
    tokens = {token.strip().lower() for token in connection.split(",")}
    return "close" not in tokens and (minor != "0" or "keep-alive" in tokens)


def read_body(
    connection: Connection, head: Head, method: str, deadline: float
) -> tuple[bytes, bool]:
    """
    Read at most the first 64 KiB of the body; return it and whether it came to its proper end.

    Whatever goes wrong only ends the reading: the outcome was decided by the head.
    """
    body = _Body(connection, deadline)
    complete = False
    # Broken, late or malformed: the outcome stays, the connection goes.
    with suppress(NoAnswer):
        complete = body.read(head, method)
    return bytes(body.content), complete


class _Body:
    def __init__(self, connection: Connection, deadline: float) -> None:
        self._connection = connection
        self._buffer = connection.buffer
        self._deadline = deadline
        self._raw_left = _MAX_RAW_BODY
        self.content = bytearray()

    def read(self, head: Head, method: str) -> bool:
        if head.status in _WITHOUT_BODY or method == "HEAD":
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
            raise _malformed("far more framing than content")
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
            pass  # Trailers are of no use to anybody here.
        return True

    def _line(self) -> bytes:
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > _MAX_CHUNK_LINE or not self._fill():
                raise _malformed("no end of a line in a chunked body")
        line = bytes(self._buffer[: end + 1])
        del self._buffer[: end + 1]
        return line


def _length(text: str) -> int | None:
    values = {value.strip() for value in text.split(",")}
    value = values.pop()
    return int(value) if not values and _LENGTH.fullmatch(value) else None


def _malformed(detail: str) -> NoAnswer:
    return NoAnswer(Failure.MALFORMED, detail)
