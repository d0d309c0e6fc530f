"""A name server that answers each question as it is told to."""

from __future__ import annotations

import socketserver
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from threading import Thread
from typing import NamedTuple

NOERROR, SERVFAIL, NXDOMAIN = 0, 2, 3
_IN = b"\0\x01"
_A, _SOA, _AAAA = b"\0\x01", b"\0\x06", b"\0\x1c"
_FAMILIES = {4: _A, 6: _AAAA}
_NAME_OF_THE_QUESTION = b"\xc0\x0c"
_HOUR = (3600).to_bytes(4)


class Answer(NamedTuple):
    """What is said of a name: its addresses, for how many seconds they may be kept, and a code."""

    addresses: tuple[str, ...] = ("127.0.0.1",)
    ttl: int = 0
    code: int = NOERROR


FOUND = Answer()


@contextmanager
def running_name_server(answer: Callable[[str], Answer | None]) -> Iterator[int]:
    """
    Run a name server on loopback until the block ends; yield its port.

    *answer* is called for each question, with the name, and must not wait; ``None`` is silence.
    What does not exist may be kept for an hour.
    """

    class Questions(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            data, listener = self.request
            if found := answer(_name(data)):
                listener.sendto(_written(found, data), self.client_address)

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


def _written(answer: Answer, question: bytes) -> bytes:
    """Return the answer to *question*: the records of the type that it asks for, and a SOA."""
    end = question.index(b"\0", 12) + 5
    addresses = [ip_address(each) for each in answer.addresses]
    asked = [
        each.packed for each in addresses if _FAMILIES[each.version] == question[end - 4 : end - 2]
    ]
    records = b"".join(_record(question[end - 4 : end - 2], answer.ttl, each) for each in asked)
    soa = _record(_SOA, 3600, b"\0\0" + _HOUR * 5)
    counts = b"\0\x01" + len(asked).to_bytes(2) + b"\0\x01\0\0"
    flags = b"\x81" + bytes([0x80 | answer.code])
    return question[:2] + flags + counts + question[12:end] + records + soa


def _record(kind: bytes, ttl: int, data: bytes) -> bytes:
    head = _NAME_OF_THE_QUESTION + kind + _IN + ttl.to_bytes(4)
    return head + len(data).to_bytes(2) + data
