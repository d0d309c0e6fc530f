"""Blobs in a replay: their order, which are left out, how they are cut and recorded."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from pushgrid.testing.memory import START, FakeClock, MemoryDeadLetters
from shared.deadletter.reader import Element
from shared.deadletter.selection import Selection
from shared.engine.ports import Listing
from shared.engine.replaying.batches import BlobBatches, ReplayBatch
from shared.engine.replaying.job import FINISHED, Position, ReplayJob, ReplaySource
from shared.engine.replaying.job import START as FROM_THE_START
from shared.engine.replaying.marks import Mark
from shared.engine.replaying.walk import Walk
from shared.subscriptions.subscription import DeadLetterDestination, SubscriptionKey
from tests.builders import CRM, a_topic, members

SOURCE = ReplaySource("orders", "crm", "dead", "", "CRM")
NINE, TEN = "CRM/2026/2/9/9/b.json", "CRM/2026/2/9/10/a.json"
NOON = "CRM/2026/2/9/noon/c.json"
EVERYTHING = Selection()
LATER = START + timedelta(hours=1)


class Counted(MemoryDeadLetters):
    """Dead letters that remember which folders were listed."""

    def __init__(self, *paths: str) -> None:
        super().__init__(FakeClock())
        self.listed: list[str] = []
        for path in paths:
            self.write(SOURCE.destination, path, b"[]")

    def list(self, destination: DeadLetterDestination, folder: str) -> Listing:
        self.listed.append(folder)
        return super().list(destination, folder)


def walked(
    reader: MemoryDeadLetters,
    position: Position = FROM_THE_START,
    written_before: datetime = LATER,
    selection: Selection = EVERYTHING,
) -> list[str]:
    walk = Walk(
        reader=reader,
        source=SOURCE,
        selection=selection,
        written_before=written_before,
    )
    return [each.path for each in walk.blobs_from(position)]


@pytest.mark.parametrize(
    ("paths", "found"),
    [
        ([NOON, TEN, NINE], [NINE, TEN, NOON]),
        ([NINE, "CRM/../../other/x.json", "CRM/./x.json"], [NINE]),
        ([NINE, f"{NINE}.txt", "CRM/2026/2/9/9/noext"], [NINE]),
    ],
    ids=["numbers by value, then names", "another path in a URL", "no JSON"],
)
def test_blobs_are_read_in_order(paths: list[str], found: list[str]) -> None:
    assert walked(Counted(*paths)) == found


@pytest.mark.parametrize(("record", "left"), [(FINISHED, [TEN]), (3, [NINE, TEN])])
def test_it_goes_on_where_it_was(record: int, left: list[str]) -> None:
    before = NINE.replace("b.json", "a.json")
    reader = Counted("CRM/2026/2/8/23/z.json", before, NINE, TEN)

    assert walked(reader, Position(0, NINE, record)) == left
    assert "CRM/2026/2/8/" not in reader.listed


def test_a_blob_outside_the_hours_counts_by_the_time_of_its_writing() -> None:
    reader = Counted("CRM/loose.json", "CRM/2026/2/loose.json", NINE)

    assert walked(reader, selection=Selection(since=START)) == [
        "CRM/2026/2/loose.json",
        "CRM/loose.json",
    ]
    assert walked(reader, selection=Selection(until=START)) == [NINE]


def test_what_is_written_at_its_start_is_left_out() -> None:
    assert walked(Counted(NINE), written_before=START) == []


MARK = Mark(source=ReplaySource("orders", "crm", "dead", "", "CRM"), path="CRM/1.json", to=CRM)


def letters(count: int, data: str = "") -> list[Element]:
    reason = {"deadLetterReason": "TimeToLiveExceeded"}
    return [
        Element(json.dumps(members(id=f"e-{number}", data=data) | reason).encode())
        for number in range(count)
    ]


def batches(
    elements: list[Element], position: Position = FROM_THE_START, most: int = 1000
) -> list[ReplayBatch]:
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


JOB = ReplayJob(
    id="j-1",
    by="",
    started_at=START,
    sources=(SOURCE,),
    selection=EVERYTHING,
    to=None,
    rate=1,
    is_dry_run=False,
    again=False,
)


def test_a_batch_is_a_repeat_only_if_its_blob_and_records_are_those_under_way() -> None:
    """Another one must not get the publish id of what may have been put."""
    job = JOB.with_batch(NINE, (0, 1))

    found = [job.with_batch(*each) for each in ((NINE, (0, 1)), (TEN, (0, 1)), (NINE, (1,)))]

    assert [(each.latest_batch, each.progress.repeated) for each in found] == [
        (1, 2),
        (2, 0),
        (2, 0),
    ]


def test_a_job_remembers_the_latest_chosen_events_of_each_subscription() -> None:
    job = replace(JOB, selection=Selection(event="e-1")).with_put(CRM, map(str, range(1001)))

    assert [job.was_put(CRM, each) for each in ("0", "1", "1000")] == [False, True, True]
    assert not job.was_put(SubscriptionKey("orders", "erp"), "1")
