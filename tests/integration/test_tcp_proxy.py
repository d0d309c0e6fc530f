"""A proxy that cuts and hangs connections."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from testbed.tcp_proxy import TcpProxy
from tests.host.running import until


@pytest.fixture
def arrived() -> list[bytes]:
    """What has arrived at the server, which echoes it."""
    return []


@pytest.fixture
def proxy(arrived: list[bytes]) -> Iterator[TcpProxy]:
    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                while data := connection.recv(100):
                    arrived.append(data)
                    connection.sendall(data)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        address = listener.getsockname()
        with closing(TcpProxy(lambda: socket.create_connection(address))) as made:
            yield made


@pytest.fixture
def client(proxy: TcpProxy) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as connected:
        connected.sendall(b"one")
        assert connected.recv(100) == b"one"
        yield connected


def is_cut(client: socket.socket) -> bool:
    try:
        return client.recv(100) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_connection_is_cut_before_what_is_sent_is_passed_on_or_after_it(
    proxy: TcpProxy, client: socket.socket, arrived: list[bytes], side: str
) -> None:
    proxy.cuts = lambda _, data: side if data == b"two" else None
    client.sendall(b"two")
    assert is_cut(client)
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as another:
        another.sendall(b"three")
        assert another.recv(100) == b"three"
    assert (b"two" in arrived) == (side == "after")


def test_all_are_cut(proxy: TcpProxy, client: socket.socket) -> None:
    proxy.cut()
    assert is_cut(client)


def test_nothing_passes_while_it_hangs(
    proxy: TcpProxy, client: socket.socket, arrived: list[bytes]
) -> None:
    with proxy.hung():
        client.sendall(b"two")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(100)
        assert arrived == [b"one"]
    client.settimeout(60)
    assert client.recv(100) == b"two"


def test_what_is_sent_on_connections_that_are_silenced_vanishes(
    proxy: TcpProxy, client: socket.socket, arrived: list[bytes]
) -> None:
    proxy.silence()
    client.sendall(b"two")
    until(lambda: proxy.vanished)
    client.close()
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as another:
        another.sendall(b"three")
        assert another.recv(100) == b"three"
    assert arrived == [b"one", b"three"]
