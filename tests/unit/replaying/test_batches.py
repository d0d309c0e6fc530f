"""The batches of a blob: how they are cut, put as deliveries, and recorded."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from unittest.mock import Mock

import pytest

from pushgrid.testing.memory import START, FakeClock, MemoryPayloads
from shared.deadletter.reader import Element
from shared.engine.replaying.batches import Batch, BlobBatches
from shared.engine.replaying.job import FINISHED, Position, ReplaySource
from shared.engine.replaying.job import START as FROM_THE_START
from shared.engine.replaying.marks import Mark
from shared.engine.replaying.step import ReplaySteps, ReplayTarget
from shared.subscriptions.subscription import Batching, SubscriptionKey
from tests.builders import CRM, a_subscription, a_topic, members, noise

MARK = Mark(source=ReplaySource("orders", "crm", "dead", "", "CRM"), path="CRM/1.json", to=CRM)


def letters(count: int, data: str = "") -> list[Element]:
    reason = {"deadLetterReason": "TimeToLiveExceeded"}
    return [
        Element(json.dumps(members(id=f"e-{number}", data=data) | reason).encode())
        for number in range(count)
    ]


def batches(
    elements: list[Element], position: Position = FROM_THE_START, most: int = 1000
) -> list[Batch]:
    blob = BlobBatches(
        path="b.json",
        topic=a_topic(),
        most=most,
        replayed=frozenset(),
        left_out=lambda _: None,
    )
    return list(blob.of(elements[position.record_in("b.json") :], position))


@pytest.mark.parametrize(("most", "sizes"), [(1000, [64, 64, 2]), (50, [50, 50, 30])])
def test_a_batch_has_at_most_64_events_and_those_of_a_second(most: int, sizes: list[int]) -> None:
    found = batches(letters(130), most=most)

    assert [len(each.texts) for each in found] == sizes
    assert [each.then.record for each in found] == [sizes[0], 2 * sizes[0], FINISHED]


def test_a_blob_is_counted_once() -> None:
    found = batches(letters(130))
    again = batches(letters(130), found[0].then)

    assert [each.found.blobs for each in found] == [1, 0, 0]
    assert [each.found.events for each in found] == [64, 64, 2]
    assert [each.found.blobs for each in again] == [0, 0]


def test_a_batch_of_large_events_is_smaller() -> None:
    assert [len(each.texts) for each in batches(letters(9, "x" * 1_000_000))] == [5, 4]


def test_a_batch_ends_after_a_thousand_records_that_are_left_out() -> None:
    found = batches([Element(b"{}")] * 2500)

    assert [each.found.skipped for each in found] == [
        {"Unreadable": 1000},
        {"Unreadable": 1000},
        {"Unreadable": 500},
    ]
    assert [each.then.record for each in found] == [1000, 2000, FINISHED]


@pytest.mark.parametrize(
    "other",
    [
        replace(MARK, source=MARK.source._replace(account="archive")),
        replace(MARK, source=MARK.source._replace(container="azure")),
        replace(MARK, path="CRM/2.json"),
        replace(MARK, to=SubscriptionKey("invoices", "crm")),
        replace(MARK, to=SubscriptionKey("orders", "erp")),
    ],
)
def test_each_blob_and_target_has_a_row(other: Mark) -> None:
    assert other.name != MARK.name
    assert replace(MARK, to=SubscriptionKey("Orders", "CRM")).name == MARK.name


def test_events_are_put_in_batches_and_kept_as_long_as_they_live() -> None:
    payloads, requeue = MemoryPayloads(FakeClock()), Mock()
    terms = Mock(payloads_kept_for=lambda _: timedelta(hours=30))
    others = dict.fromkeys(("jobs", "rows", "reader", "topics", "subscriptions"), Mock())
    steps = ReplaySteps(
        payloads=payloads, requeue=requeue, terms=terms, clock=FakeClock(), **others
    )
    target = ReplayTarget(a_subscription(batching=Batching(max_events=10)), a_topic())

    steps.put_events(target, "p-1", [noise(60_000)], timedelta(hours=2))

    ((message,),) = (call.args for call in requeue.at_due.call_args_list)
    (name,) = payloads.blobs
    assert (message.batch_size, message.due) == (10, START + timedelta(hours=2))
    assert name.startswith("2026021020/")  # 32 hours later
