"""What is parked for a hold whose subscription is gone: nobody ends that hold any more."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pushgrid.testing.memory import FakeClock
from shared.engine.ports import Table
from tests.integration.sql.test_leases import MOST, RETRIES, prime, run, running
from tests.integration.sql.test_settling import Paused, events_of, put_and_hold


def test_what_a_hold_holds_is_free_once_its_subscription_is_gone(tmp_path: Path) -> None:
    """Before it is due; the row of the hold is cleared away later."""
    hold = {"endpoint": "e", "hold": {"since": "2026-01-01"}, "releasedAt": None}

    async def deliver() -> None:
        async with running(tmp_path / "data", FakeClock()) as store:
            await prime(store)
            crm = await asyncio.to_thread(Paused, store)  # it is not
            row = Table.ENDPOINT_HEALTH, "orders", "crm"
            await asyncio.to_thread(store.documents.put, *row, hold, None)
            await put_and_hold(store, 5)
            await asyncio.to_thread(crm.delete)
            assert sum(events_of(await store.leases.claim(RETRIES, MOST))) == 10

    run(deliver())
