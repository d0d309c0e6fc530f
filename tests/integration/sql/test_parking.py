"""What is parked is free once what it waits for is over, whoever knows of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from pushgrid.testing.memory import FakeClock
from shared.adapters.sql.sqlite.store import SqliteStore
from shared.adapters.sql.store import SqlStore
from shared.engine.ports import Table
from shared.engine.ports.leases import Lease
from shared.errors import StorageUnavailable
from tests.integration.sql.test_leases import MOST, RETRIES, prime, running
from tests.integration.sql.test_settling import Paused, events_of, put_and_hold


async def test_what_a_hold_holds_is_free_once_its_subscription_is_gone(tmp_path: Path) -> None:
    """Before it is due; the row of the hold is cleared away later."""
    hold = {"endpoint": "e", "hold": {"since": "2026-01-01"}, "releasedAt": None}
    async with running(tmp_path / "data", FakeClock()) as store:
        await prime(store)
        crm = await asyncio.to_thread(Paused, store)  # it is not
        row = Table.ENDPOINT_HEALTH, "orders", "crm"
        await asyncio.to_thread(store.documents.put, *row, hold, None)
        await put_and_hold(store, 5)
        await asyncio.to_thread(crm.delete)
        assert sum(events_of(await store.leases.claim(RETRIES, MOST))) == 10


async def claimed(store: SqlStore) -> Sequence[Lease]:
    """Claim as a server does: again, if the claim was in a transaction that has failed."""
    while True:
        with suppress(StorageUnavailable):
            return await store.leases.claim(RETRIES, MOST)


async def test_what_a_pause_holds_is_free_when_nobody_knows_of_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to the resume is lost."""
    async with running(tmp_path / "data", FakeClock()) as store:
        await prime(store)
        crm = await asyncio.to_thread(Paused, store)
        await asyncio.to_thread(crm.pause)
        await put_and_hold(store, 5)
        assert isinstance(store, SqliteStore)
        claim = asyncio.create_task(claimed(store))
        await asyncio.sleep(0)
        connection, faults = store.database._connection, [apsw.IOError("sync")]
        commit = connection.commit
        resumed = "SELECT 1 FROM documents WHERE kind = 'eventsubscriptions' AND pause IS NULL"

        def failing() -> None:
            is_resume = connection.rows(resumed)
            commit()
            if is_resume and faults:
                raise faults.pop()

        monkeypatch.setattr(connection, "commit", failing)
        with pytest.raises(StorageUnavailable):
            await asyncio.to_thread(crm.resume)
        assert sum(events_of(await asyncio.wait_for(claim, 20))) == 10
