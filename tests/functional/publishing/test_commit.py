"""One commit: what several requests store together, and which of them fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pushgrid.testing.memory import (
    START,
    Counted,
    DrivenLoop,
    FakeClock,
    MemoryPayloads,
    MemorySender,
)
from shared.delivery.messages.publication import Publication
from shared.engine.keeping.payload_texts import with_texts
from shared.engine.ports import OffLoop, Queue
from shared.engine.publishing.commit import Commit, CommitResult, Report
from shared.engine.publishing.publish_report import PublishReport
from shared.errors import StorageUnavailable
from shared.metrics import Metric
from shared.settings import PublishLogging
from tests.builders import MESSAGE_SIZE, TRACE, a_subscription, noise
from tests.functional.deployment import Logged
from tests.functional.publishing.publications import (
    FaultyPuts,
    a_publication,
    events_of,
    unreported,
)
from tests.unit.delivery.messages.wire import read_parts
from tests.without_loop import at_once

T = TypeVar("T")

LARGE = noise(60_000)
IDS = [f"{number:032x}" for number in range(3)]


def run(
    publications: Sequence[Publication],
    queues: FaultyPuts,
    payloads: MemoryPayloads | None = None,
    report: Report = unreported,
    off_loop: OffLoop = at_once,
) -> list[CommitResult]:
    commit = Commit(
        payloads=payloads or MemoryPayloads(FakeClock()),
        sender=MemorySender(queues, at_once),
        message_size=MESSAGE_SIZE,
        off_loop=off_loop,
        report=report,
    )
    return DrivenLoop(FakeClock()).run(commit.run(publications))


def test_requests_share_a_payload_blob_which_is_kept_for_the_longest() -> None:
    queues, payloads = FaultyPuts(), MemoryPayloads(FakeClock())
    publications = [
        a_publication(0, 3, data=LARGE),
        a_publication(1),
        a_publication(2, 2, data=LARGE, keep=timedelta(days=14)),
        a_publication(3, 1, data=LARGE),
    ]

    results = run(publications, queues, payloads)

    assert results == [None] * len(results)
    (name,) = payloads.blobs
    assert name.startswith(f"{START + timedelta(days=14):%Y%m%d%H}/{0:032x}-")
    deliveries = [
        each
        for message in queues.texts(Queue.DELIVERIES)
        for part in read_parts(message)
        for each in part.deliveries
    ]
    read = {each.key: each.text for each in with_texts(deliveries, payloads)}
    assert {(origin.publish_id, position): text for (origin, position), text in read.items()} == {
        (each.origin.publish_id, position): text
        for each in publications
        for position, text in enumerate(each.texts)
    }


async def no_thread(_: Callable[[], T]) -> T:
    raise StorageUnavailable


def test_a_payload_blob_is_written_off_the_loop_or_not_at_all() -> None:
    queues, payloads = FaultyPuts(), MemoryPayloads(FakeClock())
    publications = [a_publication(0, data=LARGE), a_publication(1)]

    blob, message = run(publications, queues, payloads, off_loop=no_thread)

    assert isinstance(blob, StorageUnavailable)
    assert message is None
    assert not payloads.blobs


TRACED, UNTRACED = {"trace_id": TRACE.trace_id}, {"trace_id": None}
BOTH = {"publish_ids": [IDS[0], IDS[2]], "trace_ids": [TRACE.trace_id]}
# Of each line: ids, topic, events and seconds.
LINES: dict[PublishLogging, list[tuple[dict[str, Any], str, int, float]]] = {
    PublishLogging.COMMITS: [
        (BOTH, "orders", 4, 2.0),
        ({"publish_id": IDS[1], **UNTRACED}, "returns", 2, 1.0),
    ],
    PublishLogging.REQUESTS: [
        ({"publish_id": IDS[0], **UNTRACED}, "orders", 3, 1.0),
        ({"publish_id": IDS[1], **UNTRACED}, "returns", 2, 1.0),
        ({"publish_id": IDS[2], **TRACED}, "orders", 1, 2.0),
    ],
}


@pytest.mark.parametrize("logging", PublishLogging)
def test_what_is_stored_is_logged_by_commit_or_by_request_and_counted_alike(
    logging: PublishLogging, logged: Logged
) -> None:
    """The fourth request is not stored: its message is one of its own."""
    clock, metrics = FakeClock(), Counted()
    clock.advance(timedelta(seconds=1))
    report = PublishReport(metrics=metrics, clock=clock, logging=logging).published
    publications = [
        a_publication(0, 3),
        a_publication(1, 2, topic="returns", wanted_by=[a_subscription(topic="returns")]),
        a_publication(2),
        a_publication(3, 64, wanted_by=[a_subscription(name="erp")]),
    ]
    origin = publications[2].origin._replace(trace=TRACE, published_at=START - timedelta(seconds=1))
    publications[2] = replace(publications[2], origin=origin)

    results = run(publications, FaultyPuts({0}), report=report)
    assert [isinstance(each, StorageUnavailable) for each in results] == [False] * 3 + [True]

    found = logged("event.published")
    for line, (ids, topic, events, seconds) in zip(found, LINES[logging], strict=True):
        assert {name: line.get(name) for name in ids} == ids
        assert (line["topic"], line["seconds"]) == (topic, seconds)
        assert (line["events"], line["deliveries"], line["unmatched"]) == (events, events, 0)
        assert (line["messages"], line["requests"]) == (1, 3)
    assert metrics.of(Metric.PUBLISH_SUCCESS) == {("orders", ""): 4, ("returns", ""): 2}
    assert metrics.of(Metric.MATCHED) == {("orders", "crm"): 4, ("returns", "crm"): 2}
    assert metrics.of(Metric.PUBLISH_LATENCY) == {("orders", ""): 3000, ("returns", ""): 1000}


@given(
    requests=st.lists(
        st.tuples(st.sampled_from([1, 1, 3, 70]), st.integers(1, 4), st.sampled_from(["", LARGE])),
        min_size=1,
        max_size=12,
    ),
    bad_puts=st.sets(st.integers(0, 30)),
    bad_blob=st.booleans(),
)
def test_a_request_succeeds_exactly_if_all_of_it_is_stored(
    requests: list[tuple[int, int, str]], bad_puts: set[int], *, bad_blob: bool
) -> None:
    subscriptions = [a_subscription(name=f"s-{number}") for number in range(4)]
    publications = [
        a_publication(
            number, min(events, 3) if data else events, wanted_by=subscriptions[:wanted], data=data
        )
        for number, (events, wanted, data) in enumerate(requests)
    ]
    queues, payloads = FaultyPuts(bad_puts), MemoryPayloads(FakeClock())
    if bad_blob:
        payloads.fail_next("write")

    results = run(publications, queues, payloads)

    stored = [events_of(message) for message in queues.texts(Queue.DELIVERIES)]
    not_stored = [events_of(message) for message in queues.failed]
    for publication, result in zip(publications, results, strict=True):
        id_ = publication.origin.publish_id
        is_bad = any(id_ in dict(events) for events in not_stored)
        is_bad |= bad_blob and bool(publication.parked)
        assert isinstance(result, StorageUnavailable) is is_bad
        if result is None:
            found = {position for events in stored for i, position in events if i == id_}
            assert found == set(range(len(publication.texts)))
