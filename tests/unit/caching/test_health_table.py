"""How often the table of health is read, and what serves while it fails."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TypeVar

import pytest

from pushgrid.testing.memory import START, FakeClock, MemoryResources
from shared.adapters.threads import ThreadPool
from shared.clock import ClockNote
from shared.delivery.health.endpoint_health import Health, Hold
from shared.delivery.health.health_document import document_of
from shared.engine.ports import Resource, Table
from shared.subscriptions.subscription import SubscriptionKey
from tests.builders import CRM, a_table_health
from tests.functional.deployment import Logged

T = TypeVar("T")
SECOND = timedelta(seconds=1)
HEALTH = Health(endpoint="g-1", failures=3)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def table() -> MemoryResources:
    return MemoryResources()


def reads(table: MemoryResources, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the topic of each query."""
    topics: list[str] = []
    listed = table.list

    def counted(of: Table, topic: str) -> Sequence[Resource]:
        topics.append(topic)
        return listed(of, topic)

    monkeypatch.setattr(table, "list", counted)
    return topics


def test_a_topic_is_read_once_a_second(
    clock: FakeClock, table: MemoryResources, monkeypatch: pytest.MonkeyPatch
) -> None:
    health, queries = a_table_health(table, clock), reads(table, monkeypatch)

    for _ in range(5):
        for name in ("crm", "erp"):
            health.cached(SubscriptionKey("orders", name))
        clock.advance(SECOND / 2)

    assert queries == ["orders"] * 3


def test_what_is_known_serves_for_a_second_more_while_the_table_fails(
    clock: FakeClock, table: MemoryResources, logged: Logged
) -> None:
    health = a_table_health(table, clock)
    health.write(CRM, HEALTH, None)
    health.cached(CRM)
    clock.advance(2 * SECOND - SECOND / 1000)
    table.fail_next("list", 1000)

    rows, lines = [health.cached(CRM)], [len(logged("health.unread"))]
    for _ in range(60):
        clock.advance(SECOND)
        rows.append(health.cached(CRM))
    lines.append(len(logged("health.unread")))

    assert rows[0]
    assert rows[0].health == HEALTH
    assert rows[1:] == [None] * 60
    assert health.known(CRM) is None
    assert health.cached(SubscriptionKey("others", "crm")) is None
    assert lines == [0, 1]  # It is said once a minute.


@pytest.mark.parametrize(
    "damage",
    [
        None,
        [1],
        {"name": "crm", "hold": {"since": 1}},
        {**document_of(HEALTH), "failures": float("inf")},
        {**document_of(HEALTH), "failures": 10**40},
    ],
)
def test_a_row_that_cannot_be_read_is_ignored_said_and_replaced(
    clock: FakeClock, table: MemoryResources, logged: Logged, damage: object
) -> None:
    health = a_table_health(table, clock)
    others = SubscriptionKey("orders", "erp")
    health.write(others, HEALTH, None)
    table.damage(Table.ENDPOINT_HEALTH, "orders", "crm", damage)

    for _ in range(61):
        clock.advance(SECOND)
        row, other = health.cached(CRM), health.cached(others)

    assert row
    assert other
    assert (row.health, other.health) == (Health(endpoint=""), HEALTH)
    lines = logged("health.unreadable")
    named = [(line["table"], line["partition"], line["row"]) for line in lines]
    assert named == [("endpointhealth", "orders", "crm")] * 2
    health.write(CRM, HEALTH, row.etag)
    assert health.read(CRM) == health.cached(CRM)


def test_a_hold_that_was_written_6_hours_ahead_is_bounded_as_it_is_read_and_recorded(
    clock: FakeClock, table: MemoryResources
) -> None:
    notes: list[tuple[ClockNote, SubscriptionKey]] = []
    health = a_table_health(table, clock, record=lambda *each: notes.append(each))
    ahead = START + 21600 * SECOND
    hold = Hold(extended_at=ahead, until=ahead, sent_at=ahead, why="w", delays=1)
    health.write(CRM, Health(endpoint="g-1", hold=hold), None)

    found = health.read(CRM)

    assert found
    assert found.health.hold
    assert found.health.hold.until == START + 60 * SECOND
    assert found.is_bounded
    assert notes == [(ClockNote("hold", START, 21600.0), CRM)]


class SlowRows(MemoryResources):
    """Documents whose list takes until *ends*."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = threading.Event()
        self.ends.set()
        self.lists = 0

    def list(self, table: Table, partition: str) -> Sequence[Resource]:
        self.lists += 1
        assert self.ends.wait(60)
        return super().list(table, partition)


@pytest.mark.parametrize(
    ("is_known", "found"),
    [
        pytest.param(False, ["g-2"] * 3, id="nothing is known"),
        pytest.param(True, ["g-2", "g-1", "g-1"], id="an expired row serves"),
    ],
)
def test_a_topic_is_read_once_for_all_who_wait_on_the_loop(
    clock: FakeClock, found: list[str], *, is_known: bool
) -> None:
    table = SlowRows()
    pool, calls = ThreadPool(2, "deliver"), []

    async def counted(call: Callable[[], T]) -> T:
        calls.append(call)
        return await pool(call)

    health = a_table_health(table, clock, off_loop=counted)
    row = health.write(CRM, HEALTH, None)
    if is_known:
        health.cached(CRM)
    table.put(Table.ENDPOINT_HEALTH, *CRM, document_of(Health(endpoint="g-2")), row.etag)
    clock.advance(SECOND)
    table.ends.clear()
    table.lists = 0

    async def known() -> str | None:
        await health.ready(CRM)
        row = health.known(CRM)
        return row.health.endpoint if row else None

    async def main() -> list[str | None]:
        waiting = [asyncio.create_task(known()) for _ in range(3)]
        if is_known:
            await asyncio.gather(*waiting[1:])  # only the first waits
        table.ends.set()
        return await asyncio.gather(*waiting)

    assert asyncio.run(main()) == found
    assert (table.lists, len(calls)) == (1, 1)
