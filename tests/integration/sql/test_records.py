"""What only a store of one's own promises of attempts, texts and documents."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from pushgrid.testing.memory import START, FakeClock
from shared.adapters.sql.attempts import SqlAttempts
from shared.adapters.sql.database import Row
from shared.adapters.sql.sqlite.store import SqliteStore
from shared.adapters.threads import SystemThreads
from shared.engine.ports import CUSTOM_TOPICS, PROCESSES, STATE, Table
from shared.metrics import Metric, Series
from shared.subscriptions.subscription import DeadLetterDestination
from tests.builders import NEVER, a_minute, a_record, an_outcome

HOUR = timedelta(hours=1)
ODD = "\0 \ud800 ü"  # what PostgreSQL takes in no text


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(
        SqliteStore(tmp_path / "data", clock=FakeClock(), threads=SystemThreads())
    ) as store:
        yield store


def rows_of(store: SqliteStore, table: str) -> list[Row]:
    statement = f"SELECT * FROM {table}"  # noqa: S608 - a name of ours
    return store.database.read(lambda reading: reading.rows(statement))


def test_the_oldest_attempts_go_first_when_there_are_too_many(store: SqliteStore) -> None:
    """In whole hours of publishing, also where none is older than it may be."""
    attempts = SqlAttempts(store.database, most_bytes=20_000)
    for hours in range(8):
        attempts.write(
            [
                a_record(
                    system_id=str(uuid.UUID(int=number)),
                    published_at=START - hours * HOUR,
                    event="x" * 500,
                )
                for number in range(10)
            ]
        )

    dropped = attempts.delete_before((START - timedelta(days=7)).date(), NEVER)

    found = [each for day in attempts.read("orders", "crm", START - 20 * HOUR) for each in day]
    kept = {(START - each.published_at) // HOUR for each in found}
    assert kept == set(range(len(kept)))
    assert 0 < len(kept) < 8
    assert dropped == 0  # no day is older than seven


def test_the_attempts_of_an_event_are_found_by_their_index(store: SqliteStore) -> None:
    store.attempts.write([a_record()])
    plan = store.database.read(
        lambda reading: reading.rows(
            "EXPLAIN QUERY PLAN SELECT MAX(hour) FROM attempts"
            " WHERE topic = ? AND subscription = ? AND hour >= ? AND event_id = ? AND hour < ?",
            *("orders", "crm", 0, "e-0", 2**62),
        )
    )

    assert "attempts_event" in str(plan)


def test_no_text_column_gets_what_postgresql_refuses(store: SqliteStore) -> None:
    outcome = replace(an_outcome(), detail=ODD)
    record = a_record(event_id=ODD, why=ODD, subject=ODD, event=ODD, outcome=outcome)
    store.attempts.write([record])
    store.counts.write([a_minute({Series(Metric.ATTEMPT_FAIL, (("Error", ODD),)): 1.0})])
    store.documents.put(Table.TOPICS, CUSTOM_TOPICS, "orders", {"text": ODD}, None)
    store.dead_letters.write(
        DeadLetterDestination(container="dead"), "a.json", ODD.encode("utf-16", "surrogatepass")
    )
    store.payloads.write("p", START, [ODD.replace("\ud800", "")])

    (found,) = [each for day in store.attempts.read("orders", "crm", START) for each in day]
    texts = [
        value
        for table in ("attempts", "counts", "documents", "blobs", "payloads")
        for row in rows_of(store, table)
        for value in row
        if isinstance(value, str)
    ]
    assert found == record
    assert texts
    assert all(text.isprintable() for text in texts)


def test_a_change_of_topics_or_subscriptions_is_a_new_version(store: SqliteStore) -> None:
    """Not the state of the deployment, health or replays."""
    documents, versions = store.documents, [store.documents.read_version()]
    for table, partition in (
        (Table.TOPICS, CUSTOM_TOPICS),
        (Table.EVENT_SUBSCRIPTIONS, "orders"),
        (Table.TOPICS, STATE),
        (Table.TOPICS, PROCESSES),
        (Table.ENDPOINT_HEALTH, "orders"),
        (Table.REPLAYS, "jobs"),
    ):
        documents.put(table, partition, "a", {}, None)
        versions.append(documents.read_version())
    documents.delete(Table.EVENT_SUBSCRIPTIONS, "orders", "a")
    documents.delete(Table.EVENT_SUBSCRIPTIONS, "orders", "a")
    versions.append(documents.read_version())

    changes = [one != other for one, other in pairwise(versions)]
    assert changes == [True, True, False, False, False, False, True]
    assert len({*versions}) == 4


def test_dead_letters_are_kept_for_their_time(store: SqliteStore) -> None:
    here = DeadLetterDestination(container="dead")
    for number in range(3):
        store.dead_letters.write(here, f"a/{number}.json", b"[]")

    assert store.dead_letters.delete_before(START, NEVER) == 0
    assert store.dead_letters.delete_before(START + HOUR, NEVER) == 3
    assert store.dead_letters.list(here, "a/") == ([], [])
