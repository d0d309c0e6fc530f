"""Several addresses of one name: the first that accepts is taken (RFC 8305)."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from datetime import timedelta
from ipaddress import ip_address
from threading import Thread

import pytest

from shared.adapters.http import dialer as connecting
from shared.adapters.http import http_pusher as sender
from shared.adapters.http.outbound_guard import OutboundGuard
from shared.adapters.http.resolver import by_turns
from shared.http import Exchange, Failure
from tests.integration.push.names import always_at
from tests.integration.push.on_loop import HttpPusher, answer_of, unanswered
from tests.integration.push.scripted import LOCAL, OK, Server, always, silent

FOR_EVER = timedelta(days=10)


def push_to(addresses: Sequence[str], port: int) -> Exchange:
    """Push to a name that has these addresses, with all the time in the world."""
    with HttpPusher(LOCAL, lookup=always_at(*addresses)) as pusher:
        return pusher.push(f"http://several.test:{port}/", FOR_EVER)


@pytest.fixture(autouse=True)
def endless_connecting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for an address to the end, or for its share of the time, waits for ever."""
    monkeypatch.setattr(sender, "_CONNECT_SECONDS", 1e6)


@pytest.mark.parametrize("dead", [["127.0.0.2"], ["127.0.0.2", "127.0.0.3"]])
def test_an_address_that_lets_nobody_in_is_not_waited_for(dead: list[str]) -> None:
    with Server(always(OK)) as server, ExitStack() as listeners:
        for host in dead:
            listeners.enter_context(silent(host, server.port))

        assert answer_of(push_to([*dead, "127.0.0.1"], server.port)).status == 200


def test_after_a_refusal_the_next_address_is_tried_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connecting, "_ATTEMPT_SECONDS", 1e6)
    with Server(always(OK)) as server:
        answered = answer_of(push_to(["127.0.0.2", "127.0.0.3", "127.0.0.1"], server.port))

        assert answered.status == 200


def test_an_attempt_goes_on_beside_those_that_fail() -> None:
    def serve(accepted: socket.socket) -> None:
        with accepted, suppress(OSError):
            if accepted.recv(65536):
                accepted.sendall(OK)

    def let_in(full: socket.socket) -> None:
        with suppress(OSError):  # at the end of the test
            while True:
                Thread(target=serve, args=(full.accept()[0],)).start()

    with Server(always(OK)) as elsewhere, silent("127.0.0.2", elsewhere.port) as full:
        addresses = ["127.0.0.2", "127.0.0.3", "127.0.0.4"]
        thread = Thread(target=let_in, args=(full,))
        thread.start()
        answered = answer_of(push_to(addresses, elsewhere.port))
        full.shutdown(socket.SHUT_RDWR)
        thread.join()

        assert answered.status == 200
        assert elsewhere.connections == 0


def test_if_all_fail_the_last_failure_counts() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        none = unanswered(push_to(["127.0.0.2", "127.0.0.1"], bound.getsockname()[1]))

    assert none[:2] == (Failure.SOCKET, "connecting to 127.0.0.1: Connection refused")


def test_the_families_take_turns() -> None:
    addresses = [ip_address(each) for each in ("::1", "::2", "::3", "10.0.0.1", "10.0.0.2")]

    ordered = [str(each) for each in by_turns(addresses)]

    assert ordered == ["::1", "10.0.0.1", "::2", "10.0.0.2", "::3"]
    assert [str(each) for each in by_turns(addresses[3:])] == ["10.0.0.1", "10.0.0.2"]


def test_of_a_name_with_thousands_of_addresses_eight_are_tried_of_both_families(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Forbidden or not: a name is its owner's to fill."""
    tried: list[str] = []
    monkeypatch.setattr(OutboundGuard, "refusal", lambda _, *each: tried.append(each[0]))
    many = [f"127.1.{number // 250}.{number % 250 + 1}" for number in range(3500)]
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        unanswered(push_to([*many, "::1", "::1"], bound.getsockname()[1]))

    assert [str(each) for each in tried] == [
        *(each for pair in zip(many[:2], ["::1", "::1"], strict=True) for each in pair),
        *many[2:6],
    ]
