"""A name server that knows one address for all names, and is silent when it is told to be."""

from __future__ import annotations

import socketserver
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread

_RESPONSE = b"\x81\x80"
_A, _IN, _AT_ONCE = b"\x00\x01", b"\x00\x01", b"\0\0\0\0"
_LOOPBACK = b"\0\x04\x7f\0\0\x01"
_NAME_OF_THE_QUESTION = b"\xc0\x0c"


@contextmanager
def running_name_server(is_silent: Callable[[str], bool]) -> Iterator[int]:
    """
    Run a name server on loopback until the block ends; yield its port.

    Names have the address 127.0.0.1; a question about one that *is_silent* gets no answer.
    """

    class Questions(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            data, listener = self.request
            if not is_silent(_name(data)):
                listener.sendto(_answer(data), self.client_address)

    with socketserver.UDPServer(("127.0.0.1", 0), Questions) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def _name(question: bytes) -> str:
    labels, at = [], 12
    while length := question[at]:
        labels.append(question[at + 1 : at + 1 + length].decode())
        at += 1 + length
    return ".".join(labels).lower()


def _answer(question: bytes) -> bytes:
    """Return the record that was asked for; none but A exists."""
    end = question.index(b"\0", 12) + 5
    has_record = question[end - 4 : end - 2] == _A
    record = _NAME_OF_THE_QUESTION + _A + _IN + _AT_ONCE + _LOOPBACK if has_record else b""
    counts = b"\0\x01" + (b"\0\x01" if has_record else b"\0\0") + b"\0\0\0\0"
    return question[:2] + _RESPONSE + counts + question[12:end] + record
