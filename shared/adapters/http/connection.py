"""Sends and receives on one connection; its deadlines hold whatever the peer does."""

from __future__ import annotations

import math
import select
import socket
import ssl
from collections.abc import Callable

from shared.adapters.awake_clock import awake_seconds
from shared.errors import is_shortage
from shared.http import Failure

# At least one TLS record: a rest would stay inside OpenSSL, where poll can't see it.
_READ_SIZE = 16 * 1024
_WRITE_SIZE = 256 * 1024
_CLOSED = (ssl.SSLEOFError, ssl.SSLZeroReturnError)

Endpoint = tuple[str, str, int]  # scheme, host, port
Take = Callable[[bytes], bool]


class NoAnswer(Exception):
    """An exchange has failed; the sender returns it as a value."""

    def __init__(self, failure: Failure, detail: str, status: int = 0) -> None:
        super().__init__(detail)
        self.failure = failure
        self.detail = detail
        self.status = status


class HttpConnection:
    """
    A connected, non-blocking socket.

    All waiting is done in one place, by poll with what is left until the deadline. So a peer that
    sends a byte now and then can't stretch a wait, TLS and plain sockets behave alike, and nothing
    needs setting per request. *received* says whether anything has come since the last send began.
    """

    __slots__ = (
        "_events",
        "_poller",
        "_socket",
        "born",
        "endpoint",
        "expires",
        "received",
    )

    def __init__(self, connected: socket.socket, endpoint: Endpoint) -> None:
        self._socket = connected
        self._poller = select.poll()
        self._poller.register(connected.fileno(), select.POLLOUT)
        self._events = select.POLLOUT
        self.endpoint = endpoint
        self.born = awake_seconds()
        self.expires = 0.0
        self.received = False

    def start_tls(
        self, context: ssl.SSLContext, host: str, deadline: float, session: ssl.SSLSession | None
    ) -> None:
        """
        Make it a TLS connection to *host*, whose certificate is checked as the context says.

        With *session* that one is resumed, if the peer still knows it.

        Raises:
            NoAnswer: the handshake failed, or was not complete in time.
        """
        try:
            wrapped = context.wrap_socket(
                self._socket, server_hostname=host, do_handshake_on_connect=False, session=session
            )
            self._socket = wrapped
            while True:
                try:
                    return wrapped.do_handshake()
                except ssl.SSLWantReadError:
                    self.wait(select.POLLIN, deadline)
                except ssl.SSLWantWriteError:
                    self.wait(select.POLLOUT, deadline)
        except OSError as error:
            raise failed(error) from error
        except ValueError as error:
            raise NoAnswer(Failure.UNSENDABLE, f"no name for TLS: {error}") from error

    @property
    def is_new(self) -> bool:
        """Whether it was never kept for another request."""
        return self.expires == 0.0

    @property
    def session(self) -> ssl.SSLSession | None:
        """The TLS session; not before TLS has started and while another thread uses the socket."""
        return self._socket.session if isinstance(self._socket, ssl.SSLSocket) else None

    @property
    def address(self) -> str:
        """The address of the peer."""
        return str(self._socket.getpeername()[0])

    @property
    def certificate(self) -> bytes | None:
        """The peer's certificate in DER, if TLS has started."""
        if isinstance(self._socket, ssl.SSLSocket):
            return self._socket.getpeercert(binary_form=True)
        return None

    @property
    def is_resumed(self) -> bool:
        """Whether the peer has resumed the session that TLS was started with."""
        return isinstance(self._socket, ssl.SSLSocket) and bool(self._socket.session_reused)

    def wait(self, events: int, deadline: float) -> int:
        """
        Wait for one of *events*; return those that have occurred.

        Raises:
            NoAnswer: none until the deadline.
        """
        if events != self._events:
            self._poller.modify(self._socket.fileno(), events)
            self._events = events
        while (remaining := deadline - awake_seconds()) > 0:
            if ready := self._poller.poll(math.ceil(remaining * 1000)):
                return ready[0][1]
        raise NoAnswer(Failure.TIMED_OUT, "no answer in time")

    def is_readable(self) -> bool:
        """Tell whether anything has arrived, be it the end: an idle connection is unusable then."""
        if self._events != select.POLLIN:
            self._poller.modify(self._socket.fileno(), select.POLLIN)
            self._events = select.POLLIN
        return bool(self._poller.poll(0))

    def receive(self, deadline: float) -> bytes:
        """
        Return what arrives; empty at the end.

        Raises:
            NoAnswer: nothing until the deadline, or the connection broke.
        """
        events = select.POLLIN
        while True:
            self.wait(events, deadline)
            try:
                data = self._socket.recv(_READ_SIZE)
            except (BlockingIOError, ssl.SSLWantReadError):
                events = select.POLLIN
            except ssl.SSLWantWriteError:
                events = select.POLLOUT
            except OSError as error:
                raise failed(error) from error
            else:
                self.received = self.received or bool(data)
                return data

    def send(self, data: bytes, deadline: float, take: Take) -> bool:
        """
        Send all of *data*; return ``False`` if the answer came before all was sent.

        *take* gets what arrives meanwhile, and returns whether that answers the request.

        Raises:
            NoAnswer: not sent until the deadline, or the connection broke before any answer.
        """
        self.received = False
        try:
            sent = self._socket.send(data if len(data) <= _WRITE_SIZE else data[:_WRITE_SIZE])
            if sent == len(data):
                return True
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            sent = 0
        except OSError as error:
            return self._answered_anyway(error, take)
        return self._send_rest(memoryview(data)[sent:], deadline, take)

    def _send_rest(self, rest: memoryview, deadline: float, take: Take) -> bool:
        while rest:
            ready = self.wait(select.POLLOUT | select.POLLIN, deadline)
            if ready & select.POLLIN and self._take_arrived(take):
                return False
            if not ready & ~select.POLLIN:
                continue
            try:
                rest = rest[self._socket.send(rest[:_WRITE_SIZE]) :]
            except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                continue
            except OSError as error:
                return self._answered_anyway(error, take)
        return True

    def _take_arrived(self, take: Take) -> bool:
        """Take what has arrived, if anything but TLS's own records; return what *take* does."""
        try:
            data = self._socket.recv(_READ_SIZE)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except OSError as error:
            raise failed(error) from error
        if not data:
            raise NoAnswer(Failure.SOCKET, "closed while the request was being sent")
        self.received = True
        return take(data)

    def _answered_anyway(self, error: OSError, take: Take) -> bool:
        """Look for an answer that was sent before the peer stopped reading."""
        try:
            while self.is_readable():
                if self._take_arrived(take):
                    return False
        except NoAnswer as unread:
            if unread.failure is not Failure.SOCKET:  # a TLS alert says why the peer went away
                raise
        raise failed(error) from error

    def fileno(self) -> int:
        """Return the socket's file descriptor, to wait for it together with others."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def failed(error: OSError) -> NoAnswer:
    """Return what to raise for an error of a socket."""
    if isinstance(error, ssl.SSLError) and not isinstance(error, _CLOSED):
        return NoAnswer(Failure.TLS, str(error))
    failure = Failure.SHORTAGE if is_shortage(error) else Failure.SOCKET
    return NoAnswer(failure, str(error))
