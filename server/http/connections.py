"""
Bounds what a connection may take: uvicorn's protocol has no deadline before its first answer.

Without these, a client that sends nothing, half a request, or reads no answer keeps a connection
for ever.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable
from typing import Any, NamedTuple

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol


class ConnectionLimits(NamedTuple):
    """What clients may take; times in seconds."""

    connections: int
    head_seconds: float = 15.0  # from a request's first byte, or the connection, to the head's end
    head_bytes: int = 64 * 1024
    body_seconds: float = 60.0  # from the end of the head to that of the body
    body_bytes: int = 4 * 1024 * 1024
    answer_seconds: float = 60.0  # in which a client takes some of an answer that is held up
    keep_alive_seconds: int = 75  # longer than proxies keep a connection to us


class BoundedProtocol(HttpToolsProtocol):
    """
    One connection, within *limits*.

    Of too many connections the one that has been idle longest is closed for a new one; if none is
    idle, the new one gets 503. *gone* is called when the connection is.
    """

    parser: _Parser

    def __init__(
        self, *arguments: Any, limits: ConnectionLimits, gone: Callable[[], object], **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self.parser = _Parser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
        self._limits = limits
        self._gone = gone
        self._receiving: asyncio.TimerHandle | None = None  # what is to come in time
        self._answering: asyncio.TimerHandle | None = None  # the client is to read in time
        self._head_size: int | None = 0  # bytes of a head that is not complete; ``None``: it is
        self.idle_since: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        is_full = len(self.connections) >= self._limits.connections and not self._close_idle()
        super().connection_made(transport)
        if is_full:
            self._refuse(503, "Too many connections: try again later.")
            return
        self._expect(self._limits.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect(None)
        self._stop_answering()
        super().connection_lost(exc)
        self._gone()

    def data_received(self, data: bytes) -> None:
        if self._head_size is not None:
            self._head_size += len(data)
        super().data_received(data)
        if (self._head_size or 0) > self._limits.head_bytes and not self.transport.is_closing():
            self._refuse_head()
        if self._is_between_requests:
            self._be_idle()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.idle_since = None
        self._head_size = self._head_size or 0
        self._expect(self._limits.head_seconds)

    def on_headers_complete(self) -> None:
        if self.parser.is_upgrade:
            return
        # What arrived with the end of the head may be a body.
        arrived, limit = self._head_size or 0, self._limits.head_bytes
        is_too_large = arrived > limit and self._bytes_of_head() > limit
        self._head_size = None
        self._expect(self._limits.body_seconds)
        super().on_headers_complete()
        # The trailers of a chunked body, which uvicorn takes for headers if they come early.
        self.headers = _Dropped()
        if is_too_large:
            self._refuse_head()

    def on_message_complete(self) -> None:
        if self.parser.is_upgrade:
            return
        self._expect(None)
        self._head_size = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._is_between_requests:
            self._be_idle()

    def pause_writing(self) -> None:
        super().pause_writing()
        seconds = self._limits.answer_seconds
        self._answering = self.loop.call_later(seconds, self.transport.abort)

    def resume_writing(self) -> None:
        self._stop_answering()
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection; one whose client has not read its last answer is cut."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            super().timeout_keep_alive_handler()

    def head_without_upgrade(self) -> bytes:
        """Return the head that was parsed last, but for its header ``Upgrade``."""
        version = self.parser.get_http_version().encode()
        kept = (each for each in self.headers if each[0] != b"upgrade")
        lines = (b"%b: %b\r\n" % each for each in kept)
        first = b"%b %b HTTP/%b\r\n" % (self.parser.get_method(), self.url, version)
        return b"".join((first, *lines, b"\r\n"))

    @property
    def _is_between_requests(self) -> bool:
        """Whether all requests have come and were answered: a next one has not begun."""
        is_answered = self.cycle is not None and self.cycle.response_complete
        return is_answered and not self.pipeline and self._receiving is None

    def _be_idle(self) -> None:
        """Close the connection in time, also if blank lines come instead of a request."""
        if self.transport.is_closing():
            return
        if self.idle_since is None:
            self.idle_since = self.loop.time()
        if self.timeout_keep_alive_task is None:
            at = self.idle_since + self.timeout_keep_alive
            late = self.timeout_keep_alive_handler
            self.timeout_keep_alive_task = self.loop.call_at(at, late)

    @property
    def _is_idle(self) -> bool:
        return self.idle_since is not None and not self.transport.is_closing()

    def _close_idle(self) -> bool:
        """Close the connection that has been idle longest; ``False``: there is none."""
        idle = [each for each in self.connections if isinstance(each, BoundedProtocol)]
        idle = [each for each in idle if each._is_idle]  # noqa: SLF001 - of this class
        if not idle:
            return False
        min(idle, key=lambda each: each.idle_since or 0.0).transport.close()
        return True

    def _expect(self, seconds: float | None) -> None:
        """Cut off the client unless this is called again within *seconds*; ``None``: never."""
        if self._receiving:
            self._receiving.cancel()
        late = self._come_too_late
        self._receiving = self.loop.call_later(seconds, late, seconds) if seconds else None

    def _come_too_late(self, seconds: float) -> None:
        if self.flow.read_paused:  # by us: an earlier request of this connection is being answered
            self._expect(seconds)
        elif self._is_answering_another or self._has_sent_nothing:
            self.transport.close()
        else:
            self._refuse(408, "The request did not come to its end in time.")

    @property
    def _has_sent_nothing(self) -> bool:
        return self.cycle is None and not self._head_size

    @property
    def _is_answering_another(self) -> bool:
        """Whether an answer has begun: another one can't be written between."""
        cycle = self.cycle
        return bool(cycle and cycle.response_started and not cycle.response_complete)

    def _bytes_of_head(self) -> int:
        return len(self.url) + sum(len(name) + len(value) for name, value in self.headers)

    def _refuse_head(self) -> None:
        if self.pipeline:  # an earlier request is being answered
            self.transport.close()
        else:
            self._refuse(431, "The head of the request is too large.")

    def _refuse(self, status: int, text: str) -> None:
        """Answer in place of the app, and close the connection."""
        cycle, body = self.cycle, text.encode()
        if cycle and not cycle.response_complete:
            cycle.disconnected = True  # The app hears that nothing more comes, and answers nobody.
            cycle.message_event.set()
        own = ((b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close"))
        length = (b"content-length", b"%d" % len(body))
        headers = (*self.server_state.default_headers, *own, length)
        lines = [b"%b: %b\r\n" % header for header in headers]
        self.transport.write(b"".join((STATUS_LINE[status], *lines, b"\r\n", body)))
        self.transport.close()

    def _stop_answering(self) -> None:
        if self._answering:
            self._answering.cancel()
            self._answering = None


class _Parser(httptools.HttpRequestParser):
    """
    Ignores that a client offers another protocol, such as h2c (RFC 9110, 7.8).

    httptools ends such a request with its head, and takes its body for the other protocol: so the
    head is parsed again, without the offer.
    """

    def __init__(self, protocol: BoundedProtocol) -> None:
        super().__init__(protocol)
        self._protocol = protocol

    @property
    def is_upgrade(self) -> bool:
        """Whether the request at hand comes again, without the offer."""
        return self.should_upgrade() and self.get_method() != b"CONNECT"

    def feed_data(self, data: bytes | bytearray | memoryview | array[int]) -> None:
        data = bytes(data)
        while data:
            try:
                super().feed_data(data)
            except httptools.HttpParserUpgrade as offer:
                if not self.is_upgrade:
                    raise
                data = self._protocol.head_without_upgrade() + data[offer.args[0] :]
            else:
                return


class _Dropped(list[tuple[bytes, bytes]]):
    """Keeps nothing, however much is sent."""

    def append(self, _: tuple[bytes, bytes], /) -> None:
        """Forget it."""
