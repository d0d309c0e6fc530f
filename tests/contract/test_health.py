"""The endpoints' health on a table in memory and on Azurite."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from pushgrid.testing.memory import START
from shared.delivery.health.endpoint_health import Health, Hold
from shared.delivery.outcome import Outcome
from shared.engine.caching.health_table import TableHealth
from shared.engine.ports import ResourceStore, Store
from shared.errors import Conflict
from shared.subscriptions.subscription import SubscriptionKey
from tests.builders import CRM, a_table_health

HEALTH = Health(
    endpoint="g-1",
    hold=Hold(
        extended_at=START,
        until=START + timedelta(seconds=10, microseconds=1),
        why="probation for Busy: 10 s",
        sent_at=START - timedelta(seconds=3),
        cause="503 Busy",
        probation=Outcome.BUSY,
        probation_until=START + timedelta(seconds=9),
        delays=2,
        probe_until=START + timedelta(seconds=50),
        probe_changes=3,
        first_failed_at=START - timedelta(minutes=1),
    ),
    released_at=START - timedelta(seconds=1),
    failures=10,
    counted_from=START - timedelta(seconds=2),
)


@pytest.fixture
def table(stored: Store) -> ResourceStore:
    """Give documents without a table for them."""
    return stored.documents


def process(table: ResourceStore) -> TableHealth:
    """Give another process's view; its clock stands still, so it reads a topic once."""
    return a_table_health(table)


def test_a_missing_table_is_empty_and_made_by_a_write(table: ResourceStore) -> None:
    health = process(table)

    assert (health.cached(CRM), health.read(CRM)) == (None, None)
    health.write(CRM, HEALTH, None)
    assert process(table).read(CRM) is not None


@pytest.mark.parametrize("health", [HEALTH, Health(endpoint="g-1")], ids=["held", "not held"])
def test_what_is_written_is_what_others_read(table: ResourceStore, health: Health) -> None:
    process(table).write(SubscriptionKey("Orders", "CRM"), health, None)

    read = process(table).read(CRM)
    seen = process(table).cached(SubscriptionKey("oRDERS", "Crm"))

    assert read
    assert (read.health, seen) == (health, read)


def test_its_own_write_is_seen_at_once(table: ResourceStore) -> None:
    health = process(table)
    assert health.cached(CRM) is None

    health.write(CRM, HEALTH, None)
    first = health.cached(CRM)
    assert first
    health.write(CRM, replace(HEALTH, failures=11), first.etag)
    second = health.cached(CRM)

    assert second
    assert (second.health.failures, second.etag != first.etag) == (11, True)


def test_only_the_first_writer_wins(table: ResourceStore) -> None:
    health = process(table)
    health.write(CRM, HEALTH, None)
    row = health.read(CRM)
    assert row
    process(table).write(CRM, replace(HEALTH, failures=11), row.etag)

    for etag in (None, row.etag):
        with pytest.raises(Conflict):
            health.write(CRM, replace(HEALTH, failures=12), etag)

    read = health.read(CRM)
    assert read
    assert read.health.failures == 11


def test_subscriptions_have_a_row_each(table: ResourceStore) -> None:
    health = process(table)
    health.write(CRM, HEALTH, None)
    health.write(SubscriptionKey("orders", "erp"), replace(HEALTH, endpoint="g-2"), None)

    seen = [health.cached(SubscriptionKey("orders", name)) for name in ("crm", "erp", "wms")]

    assert [row.health.endpoint if row else None for row in seen] == ["g-1", "g-2", None]
