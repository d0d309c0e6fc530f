"""Servers on loopback that do exactly what a script says, on raw sockets."""

from __future__ import annotations

import json
import os
import select
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from functools import partial
from ipaddress import ip_network
from threading import Event, Thread
from typing import Any, Self

from shared.adapters.http.outbound_guard import OutboundGuard
from tests.integration.push.on_loop import PATIENCE

LOCAL = OutboundGuard(allow_http=True, allowed_networks=[ip_network("127.0.0.0/8")])
SHORT = timedelta(seconds=0.25)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


class Peer:
    """One connection, as its script sees it. *number* counts the server's connections from 1."""

    def __init__(self, accepted: socket.socket, number: int, server: Server) -> None:
        self.number = number
        self._socket = accepted
        self._server = server
        self.stopped = server.stopped

    @property
    def is_resumed(self) -> bool:
        """Whether the client has resumed an earlier TLS session."""
        return isinstance(self._socket, ssl.SSLSocket) and bool(self._socket.session_reused)

    @property
    def client_name(self) -> str:
        """The common name in the client's certificate; empty without one."""
        assert isinstance(self._socket, ssl.SSLSocket)
        certificate: Any = self._socket.getpeercert() or {}
        return str(dict(each[0] for each in certificate.get("subject", ())).get("commonName", ""))

    def read(self) -> bytes:
        """Read one request, by its Content-Length, and keep it; empty at the end."""
        data = bytearray()
        while (end := data.find(b"\r\n\r\n")) < 0:
            if not (part := self.receive()):
                return b""
            data += part
        length = 0
        for line in data[:end].split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        while len(data) < end + 4 + length:
            if not (part := self.receive()):
                return b""
            data += part
        self._server.requests.append(bytes(data))
        return bytes(data)

    def receive(self, most: int = 65536) -> bytes:
        """Return what arrives; empty at the end, also that of the test."""
        self._socket.settimeout(0.01)
        while not self.stopped.is_set():
            with suppress(TimeoutError):
                return self._socket.recv(most)
        return b""

    def is_closed(self) -> bool:
        """Look whether the client has gone."""
        self._socket.settimeout(0.01)
        try:
            return not self._socket.recv(1)
        except TimeoutError:
            return False

    def send(self, data: bytes) -> None:
        self._socket.settimeout(PATIENCE)
        self._socket.sendall(data)

    def send_raw(self, data: bytes) -> None:
        """Send past TLS."""
        os.write(self._socket.fileno(), data)

    def dribble(self, data: bytes, pause: float = 0.05) -> None:
        """Send byte by byte."""
        self._socket.settimeout(PATIENCE)
        for position in range(len(data)):
            self._socket.sendall(data[position : position + 1])
            if self.stopped.wait(pause):
                return

    def forward(self, onward: socket.socket) -> None:
        """Pass bytes on in both directions, until either side ends."""
        self._socket.settimeout(PATIENCE)
        both = {self._socket: onward, onward: self._socket}
        while not self.stopped.is_set():
            for ready in select.select(list(both), [], [], 0.01)[0]:
                data = ready.recv(65536)
                if not data:
                    return
                both[ready].sendall(data)

    def wait(self) -> None:
        """Do nothing until the test is over."""
        self.stopped.wait(PATIENCE)

    def reset(self) -> None:
        """Close so that the other side sees a reset."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()


Script = Callable[[Peer], None]


class Server:
    """Runs *script* for each connection, on a thread of its own."""

    def __init__(
        self,
        script: Script,
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self.stopped = Event()
        self._script = script
        self._tls = tls
        self._threads: list[Thread] = []
        self._listener = socket.create_server((host, port), backlog=64)
        self._listener.settimeout(0.01)
        self.port = int(self._listener.getsockname()[1])
        self.url = f"{'https' if tls else 'http'}://{host}:{self.port}/hook?code=a%2Fb"

    def at(self, host: str) -> str:
        """Return a URL by which *host* is this server."""
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}/"

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        for thread in self._threads:
            thread.join(PATIENCE)
        self._listener.close()

    def join(self) -> None:
        """Wait until all connections have been served."""
        for thread in self._threads[1:]:
            thread.join()

    def use_tls(self, context: ssl.SSLContext) -> None:
        """Serve further connections with another context."""
        self._tls = context

    def _start(self, target: Callable[[], None]) -> None:
        thread = Thread(target=target, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self.stopped.is_set():
            with suppress(TimeoutError):
                accepted, _ = self._listener.accept()
                self.connections += 1
                self._start(partial(self._serve, accepted, self.connections))

    def _serve(self, accepted: socket.socket, number: int) -> None:
        accepted.settimeout(PATIENCE)
        with suppress(OSError):  # The client may go at any time; the test looks at its outcome.
            if self._tls is not None:
                accepted = self._tls.wrap_socket(accepted, server_side=True)
            with accepted:
                self._script(Peer(accepted, number, self))
        accepted.close()


READ, END, WAIT, RESET = Peer.read, Peer.receive, Peer.wait, Peer.reset


def playing(*steps: bytes | float | Event | Callable[[Peer], object]) -> Script:
    """Do one after the other: send bytes, pause for seconds, wait for an event, or act."""

    def script(peer: Peer) -> None:
        for step in steps:
            if isinstance(step, bytes):
                peer.send(step)
            elif isinstance(step, Event):
                step.wait(PATIENCE)
            elif callable(step):
                step(peer)
            else:
                peer.stopped.wait(step)

    return script


def by_turns(first: Script, others: Script) -> Script:
    """Serve the first connection by one script, and all others by another."""
    return lambda peer: (first if peer.number == 1 else others)(peer)


def always(answer: bytes) -> Script:
    """Answer every request of a connection with the same bytes, until the client closes."""

    def script(peer: Peer) -> None:
        while peer.read():
            peer.send(answer)

    return script


def once(answer: bytes) -> Script:
    """Answer one request, then close."""
    return playing(READ, answer)


def answering_json(reply: Callable[[str, bytes], tuple[int, object]]) -> Script:
    """
    Answer each request with a status and a document, which follow from its head and body.

    Who is not refused for good is asked to come back in a minute.
    """

    def script(peer: Peer) -> None:
        while request := peer.read():
            head, _, body = request.partition(b"\r\n\r\n")
            status, document = reply(head.decode(), body)
            content = json.dumps(document).encode()
            lines = [f"HTTP/1.1 {status} x", "Content-Type: application/json"]
            lines.append(f"Content-Length: {len(content)}")
            if status not in (200, 400, 401):
                lines.append("Retry-After: 60")
            peer.send("".join(f"{line}\r\n" for line in [*lines, ""]).encode() + content)

    return script


def forwarding(peer: Peer) -> None:
    """Do what a proxy does: connect to the address that CONNECT names, and pass bytes on."""
    target = peer.read().split(b" ", 2)[1].decode()
    host, _, port = target.rpartition(":")
    try:
        onward = socket.create_connection((host.strip("[]"), int(port)), 30)
    except OSError:
        peer.send(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
        return
    with onward:
        peer.send(ESTABLISHED)
        peer.forward(onward)


def byte_by_byte(data: bytes, pause: float = 0.05) -> Script:
    return lambda peer: peer.dribble(data, pause)


dribbling = playing(READ, byte_by_byte(OK[:-6] + b"\r\nX: " + b"y" * 1000))  # without an end
never_reading = playing(WAIT)


@contextmanager
def silent(host: str = "127.0.0.1", port: int = 0) -> Iterator[socket.socket]:
    """Listen with a full backlog, so that nobody can connect until somebody is accepted."""
    with socket.socket() as full, ExitStack() as waiting:
        full.bind((host, port))
        full.listen(0)
        for _ in range(4):
            other = waiting.enter_context(socket.socket())
            other.setblocking(False)
            other.connect_ex(full.getsockname())
        yield full
