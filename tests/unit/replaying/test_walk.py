"""The order in which a replay reads blobs, which of them it leaves out, and where it goes on."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from pushgrid.testing.memory import START, FakeClock, MemoryDeadLetters
from shared.deadletter.selection import Selection
from shared.engine.ports import Listing
from shared.engine.replaying.job import FINISHED, Position, ReplaySource
from shared.engine.replaying.job import START as FROM_THE_START
from shared.engine.replaying.walk import Walk
from shared.subscriptions.subscription import DeadLetterDestination

SOURCE = ReplaySource("orders", "crm", "dead", "", "CRM")
NINE, TEN = "CRM/2026/2/9/9/b.json", "CRM/2026/2/9/10/a.json"
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


def test_hours_are_ordered_as_numbers() -> None:
    assert walked(Counted(TEN, NINE)) == [NINE, TEN]


def test_other_names_come_after_numbers() -> None:
    other = "CRM/2026/2/9/noon/c.json"

    assert walked(Counted(other, TEN, NINE)) == [NINE, TEN, other]


@pytest.mark.parametrize(("record", "left"), [(FINISHED, [TEN]), (3, [NINE, TEN])])
def test_it_goes_on_where_it_was(record: int, left: list[str]) -> None:
    before = NINE.replace("b.json", "a.json")
    reader = Counted("CRM/2026/2/8/23/z.json", before, NINE, TEN)

    assert walked(reader, Position(0, NINE, record)) == left
    assert "CRM/2026/2/8/" not in reader.listed


def test_a_path_that_is_another_one_in_a_url_is_left_out() -> None:
    assert walked(Counted(NINE, "CRM/../../other/x.json", "CRM/./x.json")) == [NINE]


def test_only_json_is_read() -> None:
    assert walked(Counted(NINE, f"{NINE}.txt", "CRM/2026/2/9/9/noext")) == [NINE]


def test_a_blob_outside_the_hours_counts_by_the_time_of_its_writing() -> None:
    reader = Counted("CRM/loose.json", "CRM/2026/2/loose.json", NINE)

    assert walked(reader, selection=Selection(since=START)) == [
        "CRM/2026/2/loose.json",
        "CRM/loose.json",
    ]
    assert walked(reader, selection=Selection(until=START)) == [NINE]


def test_what_is_written_at_its_start_is_left_out() -> None:
    assert walked(Counted(NINE), written_before=START) == []
