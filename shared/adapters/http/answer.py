"""Reads the head of a response: strictly, within limits, until its deadline."""

from __future__ import annotations

import re
from typing import NamedTuple

from shared.adapters.http.connection import HttpConnection, NoAnswer
from shared.adapters.http.request import TOKEN
from shared.http import Failure

_MAX_HEAD = 64 * 1024
_MAX_HEADERS = 100
_END = re.compile(rb"\n\r?\n")
_BEGINNING = b"HTTP/1."
_STATUS = re.compile(r"HTTP/1\.([0-9]) ([1-9][0-9]{2})(?: .*)?")
_ILLEGAL = re.compile(r"[\r\0]")
_KEEP_FOR = re.compile(r"timeout\s*=\s*([0-9]{1,6})")
_SWITCHING = 101
_FIRST_FINAL = 200


class Head(NamedTuple):
    """Status and headers; *stays_open* if the peer means to keep the connection."""

    status: int
    headers: dict[str, str]
    stays_open: bool

    @property
    def keep_for(self) -> float | None:
        """Seconds for which the peer keeps an idle connection; ``None``: it does not say."""
        said = _KEEP_FOR.search(self.headers.get("keep-alive", ""))
        return float(said[1]) if said else None


class HeadReader:
    """
    Reads the head of one answer from a connection.

    After a deadline, reading can go on: the limits are those of the whole head.
    """

    __slots__ = ("_allowance", "_connection", "_searched")

    def __init__(self, connection: HttpConnection) -> None:
        self._connection = connection
        self._allowance = _MAX_HEAD
        self._searched = 0  # bytes of the buffer that are known to hold no end

    def read(self, deadline: float) -> Head:
        """
        Read up to the end of the headers of the final response; informational ones are skipped.

        Raises:
            NoAnswer: no complete head until the deadline, or the connection ended before, or what
                arrived is not HTTP/1 within our limits.
        """
        while True:
            block = self._block(deadline)
            head = parse_head(block)
            if head.status >= _FIRST_FINAL:
                return head
            if head.status == _SWITCHING:
                raise malformed("switches to another protocol, unasked")
            self._allowance -= len(block)

    def _block(self, deadline: float) -> bytes:
        buffer = self._connection.buffer
        while True:
            if found := _END.search(buffer, self._searched):
                block = bytes(buffer[: found.end()])
                if len(block) > self._allowance:
                    raise malformed("head too large")
                del buffer[: found.end()]
                self._searched = 0
                return block
            if not buffer.startswith(_BEGINNING[: len(buffer)]):
                raise malformed("does not begin with HTTP/1")
            if len(buffer) > self._allowance:
                raise malformed("head too large")
            self._searched = max(0, len(buffer) - 2)
            if not self._connection.receive(deadline):
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
        raise malformed("no HTTP/1 status line")
    if len(lines) - 3 > _MAX_HEADERS:
        raise malformed("too many headers")
    headers: dict[str, str] = {}
    name = ""
    for line in lines[1:-2]:
        if line.startswith((" ", "\t")) and name:
            headers[name] = f"{headers[name]} {line.strip()}"
            continue
        name, colon, value = line.partition(":")
        if not colon or not TOKEN.fullmatch(name):
            raise malformed("a header line that is none")
        name, value = name.lower(), value.strip(" \t\r")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    if _ILLEGAL.search("".join(headers.values())):
        raise malformed("NUL or a lone CR in a header")
    return Head(int(status[2]), headers, _stays_open(status[1], headers.get("connection")))


def _stays_open(minor: str, connection: str | None) -> bool:
    if connection is None:
        return minor != "0"
    tokens = {token.strip().lower() for token in connection.split(",")}
    return "close" not in tokens and (minor != "0" or "keep-alive" in tokens)


def malformed(detail: str) -> NoAnswer:
    """Return what to raise for an answer that is not HTTP."""
    return NoAnswer(Failure.MALFORMED, detail)
