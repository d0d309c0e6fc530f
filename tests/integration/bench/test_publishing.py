"""The benchmarks' publisher and sink: what is published is what is counted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.load import Case, Sink, publish, running_sink


@pytest.fixture
def sink() -> Iterator[Sink]:
    with running_sink() as running:
        yield running


@pytest.mark.parametrize("batch", [1, 20])
def test_every_event_is_accepted_and_counted_once(sink: Sink, batch: int):
    published = publish(f"{sink.url}/hook", "key", Case("", 100, batch, 4, 1))

    stats = sink.stats()
    assert (published.events, len(published.acks)) == (100, 100 // batch)
    assert (stats["count"], stats["distinct"], stats["requests"]) == (100, 100, 100 // batch)


def test_no_request_is_sent_before_it_is_due(sink: Sink):
    published = publish(f"{sink.url}/hook", "key", Case("", 10, 2, 3, 1, rate=20))

    assert published.seconds >= 4 * 2 / 20


def test_after_its_seconds_no_request_begins(sink: Sink):
    published = publish(f"{sink.url}/hook", "key", Case("", 1000, 1, 2, 1, rate=20), seconds=0.2)

    assert 0 < published.events < 1000
    assert sink.stats()["distinct"] == published.events


def test_a_refused_request_is_an_error(sink: Sink):
    with pytest.raises(RuntimeError, match=r"answered b'HTTP/1\.1 503"):
        publish(f"{sink.url}/busy", "key", Case("", 10, 1, 2, 1))
