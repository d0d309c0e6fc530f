"""The proxy before Azurite: as transparent as a cable, but that it counts."""

from __future__ import annotations

import socketserver
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import requests

from devhost.azurite import Azurite
from testbed.storage_proxy import running_storage_proxy
from tests.serving import serving

KEPT_FOR = 0.3  # seconds that the server keeps a connection on which nobody asks


class Hasty(socketserver.StreamRequestHandler):
    """Answers, and hangs up on who says nothing for a moment, as Azurite does after some time."""

    timeout = KEPT_FOR

    def handle(self) -> None:
        try:
            while self.rfile.readline():
                while self.rfile.readline().strip():
                    pass
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        except TimeoutError:
            pass


@contextmanager
def hasty_storage() -> Iterator[Azurite]:
    with serving(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Hasty)) as server:
        url = f"http://127.0.0.1:{server.server_address[1]}/account"
        process: Any = None
        yield Azurite(
            connection_string="", blob_url=url, queue_url=url, table_url=url, process=process
        )


def test_a_connection_that_azurite_ended_is_ended_for_the_client_too():
    """Who asks on it would wait for an answer until the read timeout, and so would a timer."""
    with hasty_storage() as storage, running_storage_proxy(storage) as proxy:
        with requests.Session() as session:
            url = f"{proxy.azurite.queue_url}/deliveries/messages"
            assert session.get(url, timeout=5).text == "ok"
            time.sleep(3 * KEPT_FOR)
            assert session.get(url, timeout=5).text == "ok"

        assert proxy.requests == {"queue get deliveries": 2}
