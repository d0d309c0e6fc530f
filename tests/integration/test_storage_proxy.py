"""The proxy before Azurite: as transparent as a cable, but that it counts."""

from __future__ import annotations

import gc
import re
import socket
import socketserver
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from devhost.azurite import Azurite
from testbed.storage_proxy import (
    Attack,
    Failure,
    StorageProxy,
    StorageRequest,
    running_storage_proxy,
)
from tests.serving import serving

GET, POST = (f"{verb} /account/deliveries/messages" for verb in ("GET", "POST"))


class Storage(socketserver.ThreadingTCPServer):
    """
    Keeps what was requested, and answers each request with *body*; without one it never answers.

    If it *hangs_up* after an answer, as Azurite may do, it has sent that in parts of seven bytes.
    """

    daemon_threads = True

    def __init__(self, body: bytes | None, *, hangs_up: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.body = body
        self.hangs_up = hangs_up
        self.requests: list[str] = []


class _Handler(socketserver.StreamRequestHandler):
    server: Storage

    def handle(self) -> None:
        while line := self.rfile.readline():
            if b"HTTP/" in line:
                self.server.requests.append(line.decode().rpartition(" ")[0])
            if line.strip() or self.server.body is None:
                continue
            body = self.server.body
            answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
            if not self.server.hangs_up:
                self.wfile.write(answer)
                continue
            for start in range(0, len(answer), 7):
                self.wfile.write(answer[start : start + 7])
                time.sleep(0.001)
            return


@contextmanager
def proxied(
    body: bytes | None = b"complete", *, hangs_up: bool = False
) -> Iterator[tuple[StorageProxy, Storage]]:
    with serving(Storage(body, hangs_up=hangs_up)) as storage:
        url = f"http://127.0.0.1:{storage.server_address[1]}/account"
        process: Any = None
        azurite = Azurite(
            connection_string="", blob_url=url, queue_url=url, table_url=url, process=process
        )
        with running_storage_proxy(azurite) as proxy:
            yield proxy, storage


def connected(proxy: StorageProxy) -> socket.socket:
    url = urlsplit(proxy.azurite.queue_url)
    return socket.create_connection((url.hostname, url.port), 0.5)


def ask(proxy: StorageProxy, request_line: str = GET) -> bytes:
    """Ask once, and return all that is answered until the connection ends or for half a second."""
    with connected(proxy) as client:
        client.sendall(f"{request_line} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        received = b""
        try:
            while data := client.recv(4096):
                received += data
        except TimeoutError:
            return received + b" and waiting"
        except ConnectionResetError:
            return received + b" and reset"
        return received + b" and closed"


def test_a_connection_that_azurite_ended_is_ended_for_the_client_too():
    """Who asks on it would wait for an answer until the read timeout, and so would a timer."""
    with proxied(hangs_up=True) as (proxy, _):
        assert ask(proxy).endswith(b"\r\n\r\ncomplete and closed")
        assert proxy.requests == {"queue get deliveries": 1}


def test_connections_that_are_open_at_the_end_are_closed(caplog: pytest.LogCaptureFixture):
    """What is left open is reported as unclosed when it is collected, in whatever test comes."""
    for _ in range(10):
        with ExitStack() as clients, proxied(None) as (proxy, _):
            for _ in range(10):
                clients.enter_context(connected(proxy))
    gc.collect()

    assert caplog.messages == []


@pytest.mark.parametrize(
    ("failure", "passed_on", "answer"),
    [
        (Failure.ERROR, 0, rb"HTTP/1.1 500 .* and waiting"),
        (Failure.BUSY, 0, rb"HTTP/1.1 503 .* and waiting"),
        (Failure.TIMEOUT, 0, rb" and waiting"),
        (Failure.RESET, 0, rb" and reset"),
        (Failure.UNANSWERED, 1, rb" and reset"),
        (Failure.TRUNCATED, 1, rb"HTTP/1.1 200 (?!.*complete).* and closed"),
    ],
)
def test_a_request_fails_as_it_is_told(failure: Failure, passed_on: int, answer: bytes):
    done: list[str] = []
    with proxied() as (proxy, storage):
        proxy.attack = lambda request: Attack(failure, lambda: done.append(request.kind))

        assert re.fullmatch(answer, ask(proxy), re.DOTALL)
        assert len(storage.requests) == passed_on
        assert done == ["queue get deliveries"] * passed_on

        proxy.attack = None
        assert b"complete" in ask(proxy)


def test_a_rewritten_request_is_attacked_and_counted_as_what_it_is():
    attacked: list[StorageRequest] = []
    with proxied() as (proxy, storage):
        proxy.rewrite = lambda request: request.target.replace("deliveries", "waiting")
        proxy.attack = attacked.append

        assert b"complete" in ask(proxy)
        assert storage.requests == ["GET /account/waiting/messages"]
        assert [request.kind for request in attacked] == ["queue get waiting"]
        assert proxy.requests == {"queue get waiting": 1}


@pytest.mark.parametrize(
    ("request_line", "failure", "doubled"),
    [
        (GET, None, 2),
        (f"{GET}?peekonly=true", None, 0),
        (POST, None, 0),
        (POST, Failure.UNANSWERED, 1),
        (POST, Failure.RESET, 0),
        ("DELETE /account/deliveries/messages/1", Failure.UNANSWERED, 0),
    ],
)
def test_messages_are_counted_that_came_again_or_were_put_without_an_answer(
    request_line: str, failure: Failure | None, doubled: int
):
    counts = (1, 2, 1, 13)
    body = b"".join(b"<a><DequeueCount>%d</DequeueCount></a>" % each for each in counts)
    with proxied(body, hangs_up=True) as (proxy, _):
        if failure:
            proxy.attack = lambda _: Attack(failure)
        ask(proxy, request_line)

    assert proxy.doubled == doubled


def test_a_client_that_goes_before_the_answer_may_put_it_again():
    with proxied(None) as (proxy, storage):
        assert ask(proxy, POST) == b" and waiting"
        while not storage.requests:
            time.sleep(0.01)

    assert proxy.doubled == 1
