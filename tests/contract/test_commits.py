"""Commits: what group commit promises, with threads and without."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pushgrid.testing.memory import FakeClock, InlineCommits, MemoryPayloads, MemoryQueues
from shared.adapters.group_commit import GroupCommit
from shared.delivery.messages.publication import Publication
from shared.engine.ports import Committed, Queue
from shared.engine.publishing.commit import Commit
from shared.errors import StorageUnavailable
from tests.functional.publishing.publications import a_publication

Store = Callable[[Publication], Committed]  # runs a loop until the publication is committed


@pytest.fixture
def queues() -> MemoryQueues:
    return MemoryQueues(FakeClock())


@pytest.fixture(params=["inline", "group"])
def commit(request: pytest.FixtureRequest, queues: MemoryQueues) -> Iterator[Store]:
    store = Commit(payloads=MemoryPayloads(FakeClock()), sender=queues).run
    with ThreadPoolExecutor(1) as threads:
        commits = InlineCommits(store) if request.param == "inline" else GroupCommit(store, threads)
        with asyncio.Runner() as runner:
            yield lambda publication: runner.run(commits.commit(publication))


def test_it_is_stored_when_commit_returns(commit: Store, queues: MemoryQueues) -> None:
    assert commit(a_publication(0, 65)) == Committed(messages=2, requests=1)
    assert len(queues.texts(Queue.DELIVERIES)) == 2


def test_a_failed_put_is_unavailable_storage(commit: Store, queues: MemoryQueues) -> None:
    queues.fail_next("put")

    with pytest.raises(StorageUnavailable):
        commit(a_publication(0))

    assert commit(a_publication(1)) == Committed(messages=1, requests=1)


def test_a_bug_is_no_unavailable_storage(commit: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(MemoryQueues, "put")
    with pytest.raises((AttributeError, RuntimeError)):
        commit(a_publication(0))
    monkeypatch.undo()

    assert commit(a_publication(1)) == Committed(messages=1, requests=1)
