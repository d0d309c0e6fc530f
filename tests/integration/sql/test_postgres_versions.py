"""The store on other versions of PostgreSQL than the one of all other tests."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from shared.adapters.sql.postgres.store import PostgresStore
from shared.engine.ports.settling import Answer, Settlement
from testbed.postgres import programs, running_postgres
from tests.builders import a_record
from tests.integration.sql.databases import Schema
from tests.integration.sql.test_leases import MOST, RETRIES, texts
from tests.integration.sql.test_postgres_leases import in_hand, settle
from tests.integration.sql.test_settling import parts


@pytest.mark.parametrize("version", [14, 15, 16, 17])
def test_messages_are_stored_claimed_and_settled(version: int) -> None:
    if not (programs(version) / "postgres").exists():
        pytest.skip(f"PostgreSQL {version} is not installed")

    async def play(store: PostgresStore) -> None:
        lease = await in_hand(store)
        (crm,) = parts("crm")
        record = a_record(published_at=store.time.now())
        settlement = Settlement(part=crm, attempts=[record])
        assert await settle(store, lease, settlement) == [Answer.SETTLED]
        await store.sender.put(RETRIES, "later", timedelta(milliseconds=100))
        assert texts(await store.leases.claim(RETRIES, MOST)) == ["later"]
        await asyncio.to_thread(store.database.processes.renew)
        assert store.queues.unfinished() == ({}, {})
        assert store.measures()

    with running_postgres(version) as server, Schema(server).store() as store:
        asyncio.run(asyncio.wait_for(play(store), 120))
        assert store.database.processes.is_elected
