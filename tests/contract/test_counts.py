"""Counts by minute and hour: the ports' contract, in memory and on Azurite."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest

from pushgrid.testing.memory import START, Seconds
from shared.adapters.azure_storage.clients import StorageClients
from shared.adapters.azure_storage.metrics import SUM, TOTALS, StorageMetrics
from shared.clock import Deadline
from shared.engine.ports import Store
from shared.metrics import CountRow, Counts, Metric, Series, Span, Sum
from tests.builders import NEVER

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
on_storage = pytest.mark.parametrize("kind", ["azurite", "identity"])
DELIVERED = Series(Metric.DELIVERY_SUCCESS)
FAILED = Series(Metric.ATTEMPT_FAIL, (("Error", "Busy"), ("ErrorType", "ServerError")))


@pytest.fixture
def store(stored: Store) -> Any:
    """Give a store without tables."""
    return stored.counts


def counts(delivered: int, failed: int = 0) -> Counts:
    failures = {FAILED: Sum(failed, 1, failed, failed)} if failed else {}
    return {DELIVERED: Sum(delivered, 2, 1, delivered - 1)} | failures


def a_row(**changes: Any) -> CountRow:
    values: dict[str, Any] = {
        "span": Span.MINUTE,
        "start": START,
        "topic": "orders",
        "subscription": "crm",
        "instance": "a",
        "counts": counts(3, 1),
    }
    return CountRow(**values | changes)


def an_hour(**changes: Any) -> CountRow:
    return a_row(span=Span.HOUR, **changes)


def minutes(store: Any, since: Any, until: Any, name: str = "crm") -> list[tuple[Any, Counts]]:
    return list(store.minutes("Orders", name.upper(), since, until))


def test_counts_come_back_as_they_were(store: Any) -> None:
    store.write([a_row()])

    assert minutes(store, START, START + MINUTE) == [(START, counts(3, 1))]


def test_nothing_is_there_before_the_first_write(store: Any) -> None:
    assert minutes(store, START, START + DAY) == []
    assert (store.totals(), store.delete_before(date(2030, 1, 1), NEVER)) == ({}, 0)
    assert store.roll_up(START, START, NEVER) == 0


def test_the_same_minute_of_the_same_process_is_overwritten(store: Any) -> None:
    """A process writes all of a minute so far: a repetition adds nothing."""
    store.write([a_row(counts=counts(2))])
    store.write([a_row(counts=counts(5)), a_row(instance="b", counts=counts(7))])

    found = minutes(store, START, START + MINUTE)

    assert sorted(sums[DELIVERED].total for _, sums in found) == [5, 7]


def test_minutes_are_given_from_and_to_by_time(store: Any) -> None:
    """Over hours and midnight; names of others don't get in, however alike."""
    starts = [START + 11 * HOUR + 55 * MINUTE + 5 * MINUTE * each for each in range(3)]
    store.write([a_row(start=start) for start in reversed(starts)])
    store.write([a_row(start=starts[0], subscription=name) for name in ("crm2", "cr", "")])
    store.write([a_row(start=starts[0], topic="orders|crm")])

    assert [at for at, _ in minutes(store, starts[0], starts[2])] == starts[:2]
    assert [at for at, _ in minutes(store, starts[0] + MINUTE, START + DAY)] == starts[1:]
    assert len(minutes(store, START, START + DAY, name="")) == 1


def test_a_minute_belongs_to_where_it_begins(store: Any) -> None:
    store.write([a_row(start=START + each * MINUTE) for each in range(3)])
    second = timedelta(seconds=1)

    found = minutes(store, START + second, START + 2 * MINUTE + second)

    assert [at for at, _ in found] == [START + MINUTE, START + 2 * MINUTE]


def test_hours_of_all_processes_add_up(store: Any) -> None:
    store.write([an_hour(), an_hour(instance="b"), an_hour(start=START + HOUR)])
    store.write([an_hour(subscription="erp", counts=counts(9)), a_row(counts=counts(100))])

    totals = store.totals()

    assert {name: sums[DELIVERED].total for name, sums in totals.items()} == {
        ("orders", "crm"): 9,
        ("orders", "erp"): 9,
    }
    assert totals["orders", "crm"][FAILED] == Sum(3, 3, 1, 1)


def test_the_hours_since_a_time_begin_with_its_own(store: Any) -> None:
    store.write([an_hour(), an_hour(start=START + HOUR), an_hour(start=START + 2 * HOUR)])
    store.write([an_hour(subscription="erp"), a_row(start=START + HOUR, counts=counts(100))])
    store.roll_up(START + HOUR, START - DAY, NEVER)

    found = store.hours(START + HOUR + MINUTE)

    assert {name: sums[DELIVERED].total for name, sums in found.items()} == {("orders", "crm"): 6}


def test_adding_up_changes_no_total(store: Any) -> None:
    """Twice, so that a sum is added to; what is not over yet stays as it is."""
    rows = [an_hour(start=START + each * HOUR, instance=name) for each in range(4) for name in "ab"]
    store.write(rows)
    before = store.totals()

    rolled_up = [store.roll_up(START + each * HOUR, START - DAY, NEVER) for each in (2, 2, 3)]
    store.write([rows[-1]])

    assert rolled_up == [4, 0, 2]
    assert store.totals() == before


def test_a_total_without_hours_for_long_is_forgotten(store: Any) -> None:
    store.write([an_hour(), an_hour(subscription="erp", start=START + 2 * HOUR)])
    store.roll_up(START + 3 * HOUR, START - DAY, NEVER)

    store.roll_up(START + 3 * HOUR, START + HOUR, NEVER)

    assert set(store.totals()) == {("orders", "erp")}


def test_old_days_are_dropped(store: Any) -> None:
    store.write([a_row(start=START + each * DAY) for each in range(3)])

    assert store.delete_before((START + 2 * DAY).date(), NEVER) == 2
    assert [at for at, _ in minutes(store, START - DAY, START + 9 * DAY)] == [START + 2 * DAY]
    assert store.delete_before((START + 2 * DAY).date(), NEVER) == 0


@on_storage
def test_a_row_that_cannot_be_read_keeps_no_other_from_being_added_up(
    account: StorageClients, store: StorageMetrics
) -> None:
    store.write([an_hour(subscription=name) for name in ("a", "crm", "x")])
    table = account.table(TOTALS)
    damaged = next(row for row in table.list_entities() if row["Subscription"] == "a")
    table.upsert_entity({**damaged, "Counts": "damaged"})

    with pytest.raises(ValueError, match="Expecting value"):
        store.roll_up(START + HOUR, START - DAY, NEVER)

    sums = [row for row in table.list_entities() if row["RowKey"].startswith(f"{SUM}|")]
    assert sorted(row["Subscription"] for row in sums) == ["crm", "x"]


@on_storage
def test_nothing_is_added_up_after_the_deadline(store: StorageMetrics) -> None:
    store.write([an_hour()])

    assert store.roll_up(START + HOUR, START - DAY, Deadline(timedelta(), Seconds())) == 0


def test_very_many_hours_are_added_up_in_steps(store: Any) -> None:
    """A transaction has at most a hundred rows."""
    store.write([an_hour(instance=f"i{each:03}", counts=counts(2)) for each in range(150)])

    rolled_up = [store.roll_up(START + HOUR, START - DAY, NEVER) for _ in range(3)]

    assert sum(rolled_up) == 150
    assert store.totals()["orders", "crm"][DELIVERED].total == 300
