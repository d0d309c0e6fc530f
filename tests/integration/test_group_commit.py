"""Group commit on a storage that fails one of its puts."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

import pytest

from devhost.azurite import Azurite
from shared.adapters.group_commit import GroupCommit
from shared.adapters.storage.blobs import StoragePayloads
from shared.adapters.storage.clients import StorageClients
from shared.adapters.storage.queues import StorageQueues
from shared.clock import SystemClock
from shared.delivery.messages.publication import Publication
from shared.engine.ports import Queue
from shared.engine.publishing.commit import Commit, Result
from shared.errors import StorageUnavailable
from testbed.storage_proxy import Attack, Failure, running_storage_proxy
from tests.builders import noise
from tests.functional.publishing.publications import a_publication, events_of, unreported
from tests.senders import BRIDGE, THREADS, sender_of

OTHERS = range(2, 17)  # the publishers beside the one whose put fails
UNLUCKY = 1
BUSY = Attack(Failure.BUSY)
MOST_BYTES = 44_000  # of a request to storage that does not fail
SMALL = noise(2000)  # 15 of them share a message of less
TRIES = 3  # of a request that fails
PATIENCE = 60


async def publish_all(
    store: Commit, commits_of: list[int], size: int
) -> list[BaseException | None]:
    """Publish one event, and sixteen more before its commit ends; the results in this order."""
    begun, all_arrived = asyncio.Event(), asyncio.Event()

    async def commit(publications: Sequence[Publication]) -> list[Result]:
        commits_of.append(len(publications))
        results = await store.run(publications)
        begun.set()
        await all_arrived.wait()
        return results

    commits = GroupCommit(commit)
    async with asyncio.timeout(PATIENCE):
        first = asyncio.create_task(commits.commit(a_publication(0)))
        await begun.wait()
        unlucky = asyncio.create_task(commits.commit(a_publication(UNLUCKY, data=noise(size))))
        others = [
            asyncio.create_task(commits.commit(a_publication(number, data=SMALL)))
            for number in OTHERS
        ]
        await asyncio.sleep(0)  # All of them arrive in one turn of the loop.
        all_arrived.set()
        return await asyncio.gather(first, unlucky, *others, return_exceptions=True)


@pytest.mark.parametrize(
    ("size", "failed"),
    [
        pytest.param(45_800, "queue put", id="message"),  # no other event shares it
        pytest.param(60_000, "blob write", id="payload blob"),
    ],
)
def test_only_requests_in_the_failed_put_fail_and_nothing_else_is_lost(
    azurite: Azurite, size: int, failed: str
) -> None:
    """The first publisher's commit lasts until all others have arrived: they share the next."""
    commits_of: list[int] = []

    with running_storage_proxy(azurite) as proxy:
        setting = {"": proxy.azurite.connection_string}
        account = StorageClients(setting, prefix=f"t{uuid.uuid4().hex[:12]}")
        queues = StorageQueues(account)
        payloads = StoragePayloads(account, SystemClock())
        proxy.attack = lambda request: BUSY if len(request.body) > MOST_BYTES else None

        with sender_of(account) as sender:
            store = Commit(
                payloads=payloads, sender=sender.on_loop, off_loop=THREADS, report=unreported
            )
            faults = BRIDGE.run(publish_all(store, commits_of, size))
        stored = [each.text for each in queues.receive(Queue.DELIVERIES, timedelta(hours=1))]
        account.queue(Queue.DELIVERIES).delete_queue()

    assert commits_of == [1, 16]
    assert [isinstance(fault, StorageUnavailable) for fault in faults] == [
        number == UNLUCKY for number in range(17)
    ]
    accepted = {(f"{number:032x}", 0) for number in (0, *OTHERS)}
    assert set().union(*map(events_of, stored)) == accepted
    assert len(stored) == 2
    made = Counter(" ".join(kind.split()[:2]) for kind in proxy.requests.elements())
    assert made["queue put"] + made["blob write"] == TRIES + 3  # one of them found no queue yet
    assert made[failed] >= TRIES
    assert bool(made["blob write"]) is (failed == "blob write")
