"""Passes connections on to a server, and cuts or hangs them."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_LINGER_NOT = struct.pack("ii", 1, 0)
_SIZE = 2**16


class TcpProxy:
    """
    A port of 127.0.0.1 that leads to *target*, until `close`.

    *cuts* is asked about what a client sends, by its connection: ``before``: that is cut before
    this is passed on; ``after``: after it, and no answer to it comes back.
    """

    def __init__(self, target: Callable[[], socket.socket]) -> None:
        self._target = target
        self.cuts: Callable[[socket.socket, bytes], str | None] = lambda *_: None
        self._passes = threading.Event()
        self._passes.set()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._silenced: set[socket.socket] = set()
        self.vanished: set[socket.socket] = set()  # clients whose bytes have
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Reset all connections."""
        with self._lock:
            left, self._open = self._open, set()
        for each in left:
            _reset(each)

    @contextmanager
    def hung(self) -> Iterator[None]:
        """Pass nothing on in the block, either way; connections are accepted."""
        self._passes.clear()
        try:
            yield
        finally:
            self._passes.set()

    def silence(self) -> None:
        """Let all vanish that is sent on connections that are open, either way; new ones pass."""
        with self._lock:
            self._silenced |= self._open

    def close(self) -> None:
        self._listener.close()
        self._passes.set()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):  # it is closed
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        self._passes.wait()
        try:
            server = self._target()
        except OSError:
            _reset(client)
            return
        with self._lock:
            self._open |= {client, server}
        answers = threading.Event()  # no more of them
        back = threading.Thread(target=self._answer, args=(server, client, answers), daemon=True)
        back.start()
        with suppress(OSError):
            while data := client.recv(_SIZE):
                self._passes.wait()
                if client in self._silenced:
                    self.vanished.add(client)
                    continue
                side = self.cuts(client, data)
                if side == "before":
                    break
                if side == "after":
                    answers.set()
                    server.sendall(data)
                    break
                server.sendall(data)
        self._end(client, server)

    def _answer(
        self, server: socket.socket, client: socket.socket, is_over: threading.Event
    ) -> None:
        with suppress(OSError):
            while (data := server.recv(_SIZE)) and not is_over.is_set():
                self._passes.wait()
                if client not in self._silenced:
                    client.sendall(data)
        self._end(client, server)

    def _end(self, client: socket.socket, server: socket.socket) -> None:
        with self._lock:
            self._open -= {client, server}
            self._silenced -= {client, server}
        _reset(client)
        with suppress(OSError):
            server.shutdown(socket.SHUT_WR)
        server.close()


def _reset(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
