"""The proxy before Azurite: as transparent as a cable, but that it counts."""

from __future__ import annotations

import gc
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from devhost.azurite import Azurite
from testbed.storage_proxy import running_storage_proxy
from tests.serving import serving

PATIENCE = 60.0  # seconds after which a wait ends for what does not come


class Hasty(socketserver.StreamRequestHandler):
    """Answers one request and hangs up, as Azurite does on who asks nothing more for some time."""

    def handle(self) -> None:
        while self.rfile.readline().strip():
            pass
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


class Patient(socketserver.StreamRequestHandler):
    """Says that somebody has connected, and waits for the end."""

    connected = threading.Event()

    def handle(self) -> None:
        self.connected.set()
        self.rfile.read()


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


def test_a_connection_that_azurite_ended_is_ended_for_the_client_too():
    """Who asks on it would wait for an answer until the read timeout, and so would a timer."""
    with storage_that_is(Hasty) as storage, running_storage_proxy(storage) as proxy:
        url = urlsplit(proxy.azurite.queue_url)
        with socket.create_connection((url.hostname, url.port), PATIENCE) as client:
            client.sendall(b"GET /account/deliveries/messages HTTP/1.1\r\nHost: a\r\n\r\n")
            received = b"".join(iter(lambda: client.recv(4096), b""))

        assert received.endswith(b"\r\n\r\nok")
        assert proxy.requests == {"queue get deliveries": 1}


def test_a_connection_that_is_open_at_the_end_is_no_error(caplog: pytest.LogCaptureFixture):
    with storage_that_is(Patient) as storage:
        with running_storage_proxy(storage) as proxy:
            url = urlsplit(proxy.azurite.queue_url)
            client = socket.create_connection((url.hostname, url.port), PATIENCE)
            assert Patient.connected.wait(PATIENCE)
        client.close()

    assert caplog.messages == []


def test_connections_that_arrive_at_the_end_are_closed():
    """What is left open is reported as unclosed when it is collected, in whatever test comes."""
    with storage_that_is(Patient) as storage:
        for _ in range(10):
            with ExitStack() as clients, running_storage_proxy(storage) as proxy:
                url = urlsplit(proxy.azurite.queue_url)
                for _ in range(10):
                    client = socket.create_connection((url.hostname, url.port), PATIENCE)
                    clients.enter_context(client)
        gc.collect()
