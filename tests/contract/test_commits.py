"""Commits: what group commit promises, with threads and without."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from shared.adapters.group_commit import GroupCommit
from shared.delivery.messages.publication import Publication
from shared.engine.ports import Commits, Committed, Queue
from shared.engine.publishing.commit import Commit, Result
from shared.errors import StorageUnavailable
from tests.fakes import FakeClock, InlineCommits, MemoryPayloads, MemoryQueues
from tests.functional.publishing.publications import a_publication

Make = Callable[[Callable[[Sequence[Publication]], list[Result]]], Commits]


@pytest.fixture
def queues() -> MemoryQueues:
    return MemoryQueues(FakeClock())


@pytest.fixture(params=[InlineCommits, GroupCommit])
def commits(request: pytest.FixtureRequest, queues: MemoryQueues) -> Commits:
    make: Make = request.param
    return make(Commit(payloads=MemoryPayloads(FakeClock()), sender=queues).run)


def test_it_is_stored_when_commit_returns(commits: Commits, queues: MemoryQueues) -> None:
    assert commits.commit(a_publication(0, 65)) == Committed(messages=2, requests=1)
    assert len(queues.texts(Queue.DELIVERIES)) == 2


def test_a_failed_put_is_unavailable_storage(commits: Commits, queues: MemoryQueues) -> None:
    queues.fail_next("put")

    with pytest.raises(StorageUnavailable):
        commits.commit(a_publication(0))

    assert commits.commit(a_publication(1)) == Committed(messages=1, requests=1)


def test_a_bug_is_no_unavailable_storage(commits: Commits, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(MemoryQueues, "put")
    with pytest.raises((AttributeError, RuntimeError)):
        commits.commit(a_publication(0))
    monkeypatch.undo()

    assert commits.commit(a_publication(1)) == Committed(messages=1, requests=1)
