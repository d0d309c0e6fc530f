"""Commits: what group commit promises."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from pushgrid.testing.memory import (
    FakeClock,
    MemoryPayloads,
    MemoryQueues,
    MemorySender,
)
from shared.delivery.messages.publication import Publication
from shared.engine.ports import Queue
from shared.engine.publishing.commit import Commit
from shared.engine.publishing.group_commit import GroupCommit
from shared.errors import StorageUnavailable
from tests.functional.publishing.publications import a_publication, unreported
from tests.without_loop import at_once

Store = Callable[[Publication], None]  # runs a loop until the publication is committed


@pytest.fixture
def queues() -> MemoryQueues:
    return MemoryQueues(FakeClock())


@pytest.fixture
def commit(queues: MemoryQueues) -> Iterator[Store]:
    store = Commit(
        payloads=MemoryPayloads(FakeClock()),
        sender=MemorySender(queues, at_once),
        off_loop=at_once,
        report=unreported,
    ).run
    commits = GroupCommit(store)
    with asyncio.Runner() as runner:
        yield lambda publication: runner.run(commits.commit(publication))


def test_it_is_stored_when_commit_returns(commit: Store, queues: MemoryQueues) -> None:
    commit(a_publication(0, 65))

    assert len(queues.texts(Queue.DELIVERIES)) == 2


def test_a_failed_put_is_unavailable_storage(commit: Store, queues: MemoryQueues) -> None:
    queues.fail_next("put")

    with pytest.raises(StorageUnavailable):
        commit(a_publication(0))

    commit(a_publication(1))


def test_a_bug_is_no_unavailable_storage(commit: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(MemoryQueues, "put")
    with pytest.raises((AttributeError, RuntimeError)):
        commit(a_publication(0))
    monkeypatch.undo()

    commit(a_publication(1))
