"""The benchmarks' publisher and sink: what is published is what is counted."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
import requests

from bench.load import Case, Sink, publish, running_sink
from bench.publisher import event
from testbed.subscriber import running_subscriber


@pytest.fixture
def sink() -> Iterator[Sink]:
    with running_sink() as running:
        yield running


@pytest.mark.parametrize("batch", [1, 20])
def test_every_event_is_accepted_and_counted_once(sink: Sink, batch: int):
    published = publish(f"{sink.url}/hook", "key", Case(100, batch, 4, 1))

    stats = sink.stats()
    assert (published.events, len(published.acks)) == (100, 100 // batch)
    assert (stats["count"], stats["distinct"], stats["requests"]) == (100, 100, 100 // batch)


def test_an_event_is_distinct_at_each_path(sink: Sink):
    body = b"[%b]" % event(b"")
    for path in ("hook/0", "hook/1", "hook/1"):
        requests.post(f"{sink.url}/{path}", body, timeout=60)

    stats = sink.stats()
    assert (stats["count"], stats["distinct"]) == (3, 2)


def test_topics_take_turns():
    with running_subscriber(lambda _: 200) as endpoint:
        topics = [(f"{endpoint.url}/{name}", "key") for name in "abc"]
        publish(*topics[0], Case(7, 1, 1, 1), others=topics[1:])

    assert "".join(push.path[-1] for push in endpoint.pushes) == "abcabca"


def test_what_waits_for_its_answer_is_under_way(sink: Sink):
    sink.say(after=60)
    with pytest.raises(requests.ReadTimeout):
        requests.post(f"{sink.url}/hook", b"[%b]" % event(b""), timeout=1)

    stats = sink.stats()
    assert (stats["most"], stats["answered"], stats["distinct"]) == (1, 0, 1)


def test_the_delay_of_an_event_is_that_of_its_first_attempt(sink: Sink):
    body = b"[%b]" % event(b"")
    for count in "10":
        headers = {"aeg-delivery-count": count}
        requests.post(f"{sink.url}/hook", body, headers=headers, timeout=60)
        assert (sink.stats()["p50"] is None) == (count == "1")


def test_no_request_is_sent_before_it_is_due(sink: Sink):
    published = publish(f"{sink.url}/hook", "key", Case(10, 2, 3, 1, rate=20))

    assert published.seconds >= 4 * 2 / 20


def test_after_its_seconds_no_request_begins(sink: Sink):
    published = publish(f"{sink.url}/hook", "key", Case(1000, 1, 2, 1, rate=20), seconds=0.2)

    assert 0 < published.events < 1000
    assert sink.stats()["distinct"] == published.events


def test_a_refused_request_is_an_error(sink: Sink):
    sink.say(status=503)

    with pytest.raises(RuntimeError, match=r"answered b'HTTP/1\.1 503"):
        publish(f"{sink.url}/hook", "key", Case(10, 1, 2, 1))


def test_a_connection_that_is_closed_while_idle_ends_nothing():
    with socket.create_server(("127.0.0.1", 0)) as server:
        serving = threading.Thread(target=_answer_and_close_the_first, args=(server,))
        serving.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"

        published = publish(url, "key", Case(2, 1, 2, 1))

        serving.join()
    assert published.events == 2


def _answer_and_close_the_first(server: socket.socket) -> None:
    """Answer one of two connections and close it; answer the other once the client has too."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    (first, _), (second, _) = server.accept(), server.accept()
    with first, second:
        assert first.recv(2**16)
        first.sendall(answer)
        first.shutdown(socket.SHUT_WR)
        while first.recv(2**16):
            pass
        second.sendall(answer)
        while second.recv(2**16):
            pass
