"""Sends and receives on one connection; its deadlines hold whatever the peer does."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress

from shared.adapters.http.answer_reader import AnswerReader
from shared.adapters.http.no_answer import NoAnswer, failed
from shared.adapters.http.openings import Opening
from shared.adapters.http.request_writer import Server
from shared.clock import Deadline
from shared.http import Failure

# At least one TLS record: a rest would stay inside OpenSSL, where the loop can't see it.
_READ_SIZE = 16 * 1024
_WRITE_SIZE = 256 * 1024
_WRITES = 16  # at once: a record of TLS each
_READS = 64  # of an answer at once, then one each pause: single bytes cost next to nothing
_PAUSE_SECONDS = 0.02
_BLOCKED = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class HttpConnection:
    """
    A connected, non-blocking socket; it belongs to the loop on which it is made.

    The loop watches the socket itself, without a transport: asyncio's can't resume a TLS session,
    take 256 KiB for each TLS connection, and drop an answer that came before the connection broke.
    One timer ends each wait, so a peer that sends a byte now and then can't stretch it.

    *answer* is that to the latest request; *received* says whether anything of it has come.
    """

    def __init__(self, connected: socket.socket, server: Server) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = connected
        self._number = connected.fileno()
        self._is_watched = self._waits_for_room = False
        self._rest = memoryview(b"")
        self._reads = 0
        self._ended: NoAnswer | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.answer: AnswerReader
        self.opening: Opening | None = None  # until the first answer
        self.server = server
        self.born = 0.0  # seconds, by the clock of who has made it
        self.expires = 0.0
        self.received = False

    async def start_tls(
        self, context: ssl.SSLContext, host: str, deadline: Deadline, session: ssl.SSLSession | None
    ) -> None:
        """
        Make it a TLS connection to *host*, whose certificate is checked as the context says.

        With *session* that one is resumed, if the peer still knows it.

        Raises:
            NoAnswer: the handshake failed, or was not complete in time.
        """
        self._unwatch()
        try:
            wrapped = context.wrap_socket(
                self._socket, server_hostname=host, do_handshake_on_connect=False, session=session
            )
            self._socket = wrapped
            while True:
                try:
                    return wrapped.do_handshake()
                except ssl.SSLWantReadError:
                    self._loop.add_reader(self._number, self._wake)
                except ssl.SSLWantWriteError:
                    self._loop.add_writer(self._number, self._wake)
                await self._wait(deadline)
                self._unwatch()
        except OSError as error:
            raise failed(error) from error
        except ValueError as error:
            raise NoAnswer(Failure.UNSENDABLE, f"no name for TLS: {error}") from error
        finally:
            self._unwatch()

    @property
    def is_new(self) -> bool:
        return self.expires == 0.0

    @property
    def tls(self) -> ssl.SSLSocket | None:
        """Its TLS, if that was started."""
        return self._socket if isinstance(self._socket, ssl.SSLSocket) else None

    @property
    def address(self) -> str:
        return str(self._socket.getpeername()[0])

    @property
    def is_closed(self) -> bool:
        return self._socket.fileno() < 0

    @property
    def is_all_sent(self) -> bool:
        """Whether the whole request was sent; an answer that came before ended the sending."""
        return not self._rest

    @property
    def is_quiet(self) -> bool:
        """Whether nothing has arrived, be it the end: otherwise nothing may be sent."""
        try:
            self._socket.recv(1)
        except _BLOCKED:
            return True
        except OSError:
            pass
        return False

    def send(self, data: bytes) -> None:
        """Begin to send a request, and to read its answer."""
        self.answer = AnswerReader()
        self.received = False
        self._reads = 0
        self._rest = memoryview(data)
        if not self._is_watched:
            self._is_watched = True
            self._watch()
        self._write()

    async def await_head(self, deadline: Deadline) -> None:
        """
        Wait until the status of the answer is known. After a deadline, the wait can go on.

        Raises:
            NoAnswer: not known at the deadline, or the connection ended before, or what arrived
                is not HTTP/1.
        """
        while not self.answer.status:
            if self._ended:
                raise self._ended
            await self._wait(deadline)

    async def await_body(self, deadline: Deadline) -> None:
        """Wait for what comes of the body. Errors only end that: the status is the outcome."""
        with suppress(NoAnswer):
            while not (self.answer.is_over or self._ended):
                await self._wait(deadline)

    def end_opening(self) -> None:
        """Note that the first answer has come, if it is the first."""
        if self.opening:
            self.opening.answered(kept=self.answer.keeps)
            self.opening = None

    def close(self) -> None:
        """Close the socket, without a word to the peer."""
        if self.opening:
            self.opening.end()
            self.opening = None
        if not self.is_closed:
            self._unwatch()
            self._socket.close()
        self._ended = None  # which refers to those who wait

    async def _wait(self, deadline: Deadline) -> None:
        """
        Wait until something has happened.

        Raises:
            NoAnswer: nothing until the deadline.
        """
        self._waiter = self._loop.create_future()
        self._look_at_clock(deadline)
        try:
            await self._waiter
        finally:
            self._waiter = None
            if self._timer:
                self._timer.cancel()
                self._timer = None

    def _look_at_clock(self, deadline: Deadline) -> None:
        """End the wait at the deadline; timers count the time in which the process was stopped."""
        self._timer = None
        if (left := deadline.seconds_left) > 0:
            self._timer = self._loop.call_later(left, self._look_at_clock, deadline)
        elif self._waiter and not self._waiter.done():
            self._waiter.set_exception(NoAnswer(Failure.TIMED_OUT, "no answer in time"))

    def _wake(self) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)

    def _watch(self) -> None:
        if self._is_watched:  # still, after a pause
            self._loop.add_reader(self._number, self._on_readable)

    def _unwatch(self) -> None:
        self._loop.remove_reader(self._number)
        self._loop.remove_writer(self._number)
        self._is_watched = self._waits_for_room = False

    def _on_readable(self) -> None:
        if self.answer.is_over:  # nobody waits for more
            if not self.is_quiet:
                self.close()
            return
        self._read()
        is_stuck = self._rest and not (self._waits_for_room or self.answer.status or self._ended)
        if is_stuck:  # TLS had to read before it could go on
            self._write()
        self._reads += 1
        if self._reads > _READS and self._is_watched:
            self._loop.remove_reader(self._number)
            self._loop.call_later(_PAUSE_SECONDS, self._watch)

    def _read(self) -> bool:
        """Take what has arrived; return whether there may be more."""
        try:
            data = self._socket.recv(_READ_SIZE)
            if data:
                self.received = True
                self.answer.feed(data)
            else:
                self._end(NoAnswer(Failure.SOCKET, "closed before a complete response head"))
        except _BLOCKED:
            return False
        except NoAnswer as none:
            self._end(none)
        except (OSError, MemoryError) as error:
            self._end(failed(error))
        if self.answer.status:
            self._wait_for_room(needed=False)
            self._wake()
        return self._ended is None

    def _write(self) -> None:
        """Send what goes out at once, and the rest when there is room."""
        try:
            for _ in range(_WRITES):
                self._rest = self._rest[self._socket.send(self._rest[:_WRITE_SIZE]) :]
                if not self._rest:
                    break
        except ssl.SSLWantReadError:
            self._wait_for_room(needed=False)
            return
        except _BLOCKED:
            pass
        except OSError as error:
            self._look_for_answer(error)
            return
        self._wait_for_room(needed=bool(self._rest))

    def _look_for_answer(self, error: OSError) -> None:
        """Take an answer that was sent before the peer stopped reading."""
        while not self.answer.status and self._read():
            pass
        # What TLS says about the end is the reason; another end is as good as ours.
        if not self.answer.status and (not self._ended or self._ended.failure is Failure.SOCKET):
            self._end(failed(error))

    def _wait_for_room(self, *, needed: bool) -> None:
        if needed != self._waits_for_room:
            self._waits_for_room = needed
            if needed:
                self._loop.add_writer(self._number, self._write)
            else:
                self._loop.remove_writer(self._number)

    def _end(self, none: NoAnswer) -> None:
        """Note why nothing more comes."""
        if not self.answer.status:
            none.status = self.answer.begun_status
        self._ended = none
        self._unwatch()
        self._wake()
