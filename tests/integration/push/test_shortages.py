"""What the sender says when the process has no more descriptors, and when it was stopped."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from errno import EADDRNOTAVAIL, ECONNREFUSED, EMFILE, ENFILE, ENOBUFS, ENOMEM
from typing import Any, NoReturn

import pytest

from shared.adapters.http import dialer as connecting
from shared.adapters.http.dialer import new_socket
from shared.adapters.http.no_answer import failed
from shared.adapters.http.resolver import NameServers
from shared.http import Failure
from tests.integration.push.names import always_at, looked_up, name_servers
from tests.integration.push.on_loop import PATIENT, HttpPusher, begin, failure_of, run
from tests.integration.push.scripted import LOCAL, OK, Peer, Server, always
from tests.integration.push.shortage import no_descriptor, take_descriptors


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "good.test"])
def test_without_a_descriptor_nothing_is_said_about_the_endpoint(host: str) -> None:
    with Server(always(OK)) as server, name_servers() as names:
        pusher = HttpPusher(LOCAL, lookup=names)
        pusher.answer(server.at("good.other.test"))
        pusher.close()
        with no_descriptor():
            take_descriptors()
            none = pusher.push(server.at(host))
        pusher.answer(server.at(host), PATIENT)
        pusher.close()

    assert failure_of(none) is Failure.SHORTAGE


@pytest.mark.parametrize("free", [1, 2, 3])
def test_a_first_lookup_that_lacks_descriptors_says_nothing_about_the_name(free: int) -> None:
    """c-ares needs several to begin with, and does with one if it must."""
    with name_servers() as names, HttpPusher(LOCAL, lookup=names) as pusher, no_descriptor(free):
        none = pusher.unanswered("http://good.test/")

    was_found = none.detail == "connecting to 127.0.0.1: Connection refused"
    assert none.failure is Failure.SHORTAGE or was_found


def test_without_a_name_server_nothing_is_known_about_a_name() -> None:
    """A resolver of this network that is being restarted: in profile ``ns`` events were gone."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as closed:
        closed.bind(("127.0.0.1", 0))
        names = NameServers([f"127.0.0.1:{closed.getsockname()[1]}"])
    with HttpPusher(LOCAL, lookup=names) as pusher:
        assert pusher.unanswered("http://good.test/", PATIENT).failure is Failure.SHORTAGE


def test_a_name_is_unknown_only_if_there_was_a_descriptor_to_ask_with() -> None:
    """A lookup that took the last one could not open the hosts file."""

    def lookup(_: str) -> list[Any]:
        take_descriptors()
        raise OSError("no such name")

    with HttpPusher(LOCAL, lookup=looked_up(lookup)) as pusher, no_descriptor(1):
        none = pusher.push("http://good.test/")

    assert failure_of(none) is Failure.SHORTAGE


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        *((OSError(code, ""), Failure.SHORTAGE) for code in (EMFILE, ENFILE, ENOBUFS, ENOMEM)),
        (OSError(ECONNREFUSED, ""), Failure.SOCKET),
        (TimeoutError(), Failure.SOCKET),
    ],
)
def test_what_the_process_lacks_is_told_from_what_the_endpoint_did(
    error: OSError, failure: Failure
) -> None:
    assert failed(error).failure is failure


def test_no_local_port_is_a_shortage(pusher: HttpPusher, monkeypatch: pytest.MonkeyPatch) -> None:
    class WithoutPort(socket.socket):
        def connect(self, *_: object) -> None:
            raise OSError(EADDRNOTAVAIL, "")

    monkeypatch.setattr(connecting, "new_socket", lambda family, _: WithoutPort(family))

    assert pusher.unanswered("http://127.0.0.1:9/").failure is Failure.SHORTAGE


def test_an_address_that_could_not_be_tried_counts_more_than_one_that_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The one that was not tried may be the one that works."""
    faults = iter([None, OSError(EMFILE, "no descriptor")])  # the first shows that there are any

    def new(family: int, room: Any) -> socket.socket:
        if fault := next(faults, None):
            raise fault
        return new_socket(family, room)

    monkeypatch.setattr(connecting, "new_socket", new)
    with HttpPusher(LOCAL, lookup=always_at("127.0.0.1", "127.0.0.2")) as pusher:
        assert pusher.unanswered("http://several.test:9/").failure is Failure.SHORTAGE
    assert next(faults, "none is left") == "none is left"


def test_idle_connections_are_closed_first(pusher: HttpPusher) -> None:
    """Nobody listens at the second address: that it was tried shows that there was a descriptor."""
    with Server(always(OK)) as server:
        pusher.answer(server.url)
        with no_descriptor():
            none = pusher.push(server.at("127.0.0.2"))

    assert failure_of(none) is Failure.SOCKET


def test_silent_name_servers_keep_no_other_name_waiting() -> None:
    """More names than threads could be had for; then one whose servers answer."""
    with Server(always(OK)) as server, name_servers() as names:
        silent = [begin(names(f"silent-{number}.test")) for number in range(300)]
        with HttpPusher(LOCAL, lookup=names) as pusher:
            pusher.answer(server.at("good.test"), PATIENT)

        assert not any(each.done() for each in silent)


def test_lookups_that_are_under_way_at_the_end_are_no_answers() -> None:
    with name_servers() as names:
        pusher = HttpPusher(LOCAL, lookup=names)
        found = begin(names("silent.test"))
        pusher.close()
        run(names.close())

        assert isinstance(found.exception(30), MemoryError)
        pusher.close()


def test_a_lookup_without_memory_is_a_shortage() -> None:
    def lookup(_: str) -> NoReturn:
        raise MemoryError

    with HttpPusher(LOCAL, lookup=looked_up(lookup)) as pusher:
        assert pusher.unanswered("http://good.test/").failure is Failure.SHORTAGE


STOPPED = """
import sys
from datetime import timedelta
from shared.adapters.awake_clock import AwakeClock
from shared.adapters.http.pool import Pool
from tests.integration.push.scripted import LOCAL
from tests.integration.push.on_loop import HttpPusher, running_loop
awake = AwakeClock(beat=0.02, missed=0.1)
with running_loop(sys.argv[2]):
    outcome = HttpPusher(LOCAL, pool=Pool(clock=awake)).push(sys.argv[1], timedelta(seconds=0.6))
print(type(outcome).__name__, outcome.seconds)
"""


def test_a_process_that_was_stopped_waits_on(loop: str) -> None:
    """The endpoint answers while the process can't read: that is no timeout of its."""

    def script(peer: Peer) -> None:
        peer.read()
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        peer.stopped.wait(1.2)
        process.send_signal(signal.SIGCONT)
        peer.stopped.wait(0.1)
        peer.send(OK)

    with Server(script) as server:
        url = server.at("127.0.0.1")
        process = subprocess.Popen(
            [sys.executable, "-c", STOPPED, url, loop], stdout=subprocess.PIPE, text=True
        )
        kind, seconds = process.communicate()[0].split()

    assert kind == "Answered"
    assert float(seconds) < 1.2
