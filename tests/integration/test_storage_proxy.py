"""The proxy before Azurite: as transparent as a cable, but that it counts."""

from __future__ import annotations

import gc
import re
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, ClassVar
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

PATIENCE = 60.0  # seconds after which a wait ends for what does not come


class Patient(socketserver.StreamRequestHandler):
    """Says that somebody has connected, and waits for the end."""

    connected = threading.Event()

    def handle(self) -> None:
        self.connected.set()
        self.rfile.read()


def answering(body: bytes) -> type[socketserver.BaseRequestHandler]:
    """Answer one request with *body*, in parts of seven bytes, and hang up, as Azurite may do."""

    class Answers(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while self.rfile.readline().strip():
                pass
            answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
            for start in range(0, len(answer), 7):
                self.wfile.write(answer[start : start + 7])
                time.sleep(0.001)

    return Answers


@contextmanager
def storage_that_is(
    handler: type[socketserver.BaseRequestHandler],
) -> Iterator[Azurite]:
    with serving(socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler)) as server:
        url = f"http://127.0.0.1:{server.server_address[1]}/account"
        process: Any = None
        yield Azurite(
            connection_string="", blob_url=url, queue_url=url, table_url=url, process=process
        )


def connected(proxy: StorageProxy, request_line: str = "") -> socket.socket:
    """Return a connection to the queues, on which this is requested."""
    url = urlsplit(proxy.azurite.queue_url)
    client = socket.create_connection((url.hostname, url.port), PATIENCE)
    if request_line:
        client.sendall(f"{request_line} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    return client


GET, POST = (f"{verb} /account/deliveries/messages" for verb in ("GET", "POST"))


def test_a_connection_that_azurite_ended_is_ended_for_the_client_too():
    """Who asks on it would wait for an answer until the read timeout, and so would a timer."""
    with storage_that_is(answering(b"ok")) as storage, running_storage_proxy(storage) as proxy:
        with connected(proxy, GET) as client:
            received = b"".join(iter(lambda: client.recv(4096), b""))

        assert received.endswith(b"\r\n\r\nok")
        assert proxy.requests == {"queue get deliveries": 1}


def test_a_connection_that_is_open_at_the_end_is_no_error(caplog: pytest.LogCaptureFixture):
    with storage_that_is(Patient) as storage:
        with running_storage_proxy(storage) as proxy:
            client = connected(proxy)
            assert Patient.connected.wait(PATIENCE)
        client.close()

    assert caplog.messages == []


def test_connections_that_arrive_at_the_end_are_closed():
    """What is left open is reported as unclosed when it is collected, in whatever test comes."""
    with storage_that_is(Patient) as storage:
        for _ in range(10):
            with ExitStack() as clients, running_storage_proxy(storage) as proxy:
                for _ in range(10):
                    clients.enter_context(connected(proxy))
        gc.collect()


class Recording(socketserver.StreamRequestHandler):
    """Keeps which targets were requested, and answers each."""

    targets: ClassVar[list[str]] = []

    def handle(self) -> None:
        while line := self.rfile.readline():
            if target := re.match(rb"GET (\S+)", line):
                self.targets.append(target[1].decode())
            if not line.strip():
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\ncomplete")


@pytest.fixture
def recorded() -> Iterator[tuple[StorageProxy, list[str]]]:
    Recording.targets.clear()
    with storage_that_is(Recording) as storage, running_storage_proxy(storage) as proxy:
        yield proxy, Recording.targets


def ask(proxy: StorageProxy) -> bytes:
    """Ask once, and return all that is answered until the connection ends or for half a second."""
    with connected(proxy, GET) as client:
        client.settimeout(0.5)
        received = b""
        try:
            while data := client.recv(4096):
                received += data
        except TimeoutError:
            return received + b" and waiting"
        except ConnectionResetError:
            return received + b" and reset"
        return received + b" and closed"


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
def test_a_request_fails_as_it_is_told(
    failure: Failure, passed_on: int, answer: bytes, recorded: tuple[StorageProxy, list[str]]
):
    proxy, targets = recorded
    done: list[str] = []
    proxy.attack = lambda request: Attack(failure, lambda: done.append(request.kind))

    assert re.fullmatch(answer, ask(proxy), re.DOTALL)
    assert len(targets) == passed_on
    assert done == ["queue get deliveries"] * passed_on

    proxy.attack = None
    assert b"complete" in ask(proxy)


def test_a_rewritten_request_is_attacked_and_counted_as_what_it_is(
    recorded: tuple[StorageProxy, list[str]],
):
    proxy, targets = recorded
    attacked: list[StorageRequest] = []
    proxy.rewrite = lambda request: request.target.replace("deliveries", "waiting")
    proxy.attack = attacked.append

    assert b"complete" in ask(proxy)
    assert targets == ["/account/waiting/messages"]
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
    with storage_that_is(answering(body)) as storage, running_storage_proxy(storage) as proxy:
        if failure:
            proxy.attack = lambda _: Attack(failure)
        with connected(proxy, request_line) as client, suppress(ConnectionResetError):
            while client.recv(4096):
                pass

    assert proxy.doubled == doubled


def test_a_client_that_goes_before_the_answer_may_put_it_again():
    Patient.connected.clear()
    with storage_that_is(Patient) as storage:
        with running_storage_proxy(storage) as proxy, connected(proxy, POST):
            while not proxy.requests:
                time.sleep(0.01)

        assert proxy.doubled == 1
