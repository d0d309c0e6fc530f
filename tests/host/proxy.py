"""A proxy before one port of storage that records polls and can cut the connection."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator


class Proxy:
    """Forwards connections to the local port *target*."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        #: When messages were requested.
        self.receives: list[float] = []
        self._listener: socket.socket | None = None
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def open(self) -> None:
        """Accept connections."""
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen(64)
        self.port = listener.getsockname()[1]
        self._listener = listener
        self._start(self._accept, listener)

    def shut(self) -> None:
        """Refuse connections and cut the open ones."""
        listener, self._listener = self._listener, None
        for each in [*([listener] if listener else []), *self._sockets]:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(10)
        self._sockets.clear()
        self._threads.clear()

    def _start(self, work: object, *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                guest, _ = listener.accept()
                there = socket.create_connection(("127.0.0.1", self.target))
                self._sockets += [guest, there]
                self._start(self._pump, guest, there)
                self._start(self._pump, there, guest)

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if data.startswith(b"GET ") and b"numofmessages" in data.split(b"\r\n", 1)[0]:
                    self.receives.append(time.monotonic())
                target.sendall(data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def proxy_to(target: int) -> Iterator[Proxy]:
    """Run a proxy to *target* until the block ends."""
    proxy = Proxy(target)
    proxy.open()
    try:
        yield proxy
    finally:
        proxy.shut()
