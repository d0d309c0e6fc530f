"""The storage account as a whole."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from devhost.azurite import Azurite
from shared.adapters.storage_account import PAYLOADS, POISON, StorageAccount
from shared.engine.ports import Queue, Table

PREFIX = f"t{uuid.uuid4().hex[:12]}"


@pytest.fixture
def account(azurite: Azurite) -> Iterator[StorageAccount]:
    account = StorageAccount({"": azurite.connection_string}, prefix=PREFIX)
    yield account
    for queue in Queue:
        account.queue(queue).delete_queue()
    for table in Table:
        account.table(table).delete_table()
    for container in (PAYLOADS, POISON):
        account.container(container).delete_container()


def test_ensure_makes_what_is_missing(account: StorageAccount) -> None:
    account.queue(Queue.RETRIES).create_queue()

    account.ensure()
    account.ensure()

    assert {account.queue(queue).get_queue_properties().name for queue in Queue} == {
        PREFIX + queue for queue in Queue
    }
    assert all(list(account.table(table).list_entities()) == [] for table in Table)
    assert all(account.container(name).exists() for name in (PAYLOADS, POISON))


def test_several_processes_may_ensure_at_once(account: StorageAccount) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: account.ensure(), range(4)))

    assert account.container(POISON).exists()
