"""Group commit: real threads, led by events."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from random import Random

import pytest

from shared.adapters.group_commit import GroupCommit, _Waiter
from shared.delivery.messages.publication import Publication
from shared.engine.ports import Committed
from shared.engine.publishing.commit import Result
from shared.engine.publishing.gathering import MAX_UNDER_WAY
from shared.errors import StorageUnavailable
from tests.functional.publishing.publications import a_publication
from tests.host.running import until

PATIENCE = 30  # seconds after which a test that hangs fails

Answer = Callable[[int], Result]  # by the number of the publication


def stored(_: int) -> Result:
    return Committed(1, 1)


def broken(_: int) -> Result:
    raise KeyError("a bug")


def failing(*numbers: int) -> Answer:
    return lambda number: StorageUnavailable() if number in numbers else Committed(1, 1)


class Storage:
    """Commits that begin when *begun* says so, and end by *answers*."""

    def __init__(self) -> None:
        self.begun: SimpleQueue[list[int]] = SimpleQueue()
        self.answers: SimpleQueue[Answer] = SimpleQueue()
        self.threads: list[int] = []

    def commit(self, publications: Sequence[Publication]) -> list[Result]:
        numbers = [int(each.origin.publish_id, 16) for each in publications]
        self.threads.append(threading.get_ident())
        self.begun.put(numbers)
        answer = self.answers.get(timeout=PATIENCE)
        return [answer(number) for number in numbers]


class Publishers:
    """Requests in threads of their own, and the commits that they make."""

    def __init__(self, callers: ThreadPoolExecutor, wait_seconds: float = PATIENCE) -> None:
        self.storage = Storage()
        self.commits = GroupCommit(self.storage.commit, wait_seconds=wait_seconds)
        self._callers = callers

    def arrive(self, *numbers: int) -> list[Future[Committed]]:
        """Let requests arrive one after the other."""
        arrived = []
        for number in numbers:
            before = self.waiting
            arrived.append(self._callers.submit(self.commits.commit, a_publication(number)))
            until(lambda: self.waiting > before or not self.storage.begun.empty())  # noqa: B023
        return arrived

    @property
    def waiting(self) -> int:
        return self.commits._gathering._load.requests

    def next(self) -> list[int]:
        """Wait for a commit to begin."""
        return self.storage.begun.get(timeout=PATIENCE)

    def end(self, answer: Answer = stored) -> None:
        self.storage.answers.put(answer)


@pytest.fixture
def callers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(32) as callers:
        yield callers


@pytest.fixture
def publishers(callers: ThreadPoolExecutor) -> Publishers:
    return Publishers(callers)


def results(requests: Sequence[Future[Committed]]) -> list[type[BaseException] | None]:
    faults = [request.exception(PATIENCE) for request in requests]
    return [type(fault) if fault else None for fault in faults]


def test_a_lone_request_commits_at_once_in_its_own_thread(publishers: Publishers) -> None:
    publishers.end()

    assert publishers.commits.commit(a_publication()) == Committed(1, 1)
    assert publishers.storage.threads == [threading.get_ident()]


def test_what_arrives_during_a_commit_shares_the_next(publishers: Publishers) -> None:
    first = publishers.arrive(0)
    assert publishers.next() == [0]
    others = publishers.arrive(1, 2, 3)

    publishers.end()
    assert results(first) == [None]  # answered while the next is under way
    assert publishers.next() == [1, 2, 3]
    publishers.end()

    assert results(others) == [None] * 3


@pytest.mark.parametrize(
    ("answer", "faults"),
    [
        pytest.param(failing(2), [None, StorageUnavailable, None], id="one put"),
        pytest.param(failing(1), [StorageUnavailable, None, None], id="that of the leader"),
        pytest.param(broken, [RuntimeError] * 3, id="a bug"),
    ],
)
def test_a_commit_fails_those_that_failed_in_it(
    publishers: Publishers, answer: Answer, faults: list[type[BaseException] | None]
) -> None:
    first = publishers.arrive(0)
    publishers.next()
    others = publishers.arrive(1, 2, 3)
    publishers.end()
    publishers.next()
    last = publishers.arrive(4)
    publishers.end(answer)
    assert publishers.next() == [4]
    publishers.end()

    assert results([*first, *others, *last]) == [None, *faults, None]


def test_a_commit_without_a_result_for_each_is_a_bug() -> None:
    commits = GroupCommit(lambda _: [])

    with pytest.raises(RuntimeError):
        commits.commit(a_publication())


def test_no_request_waits_for_ever(callers: ThreadPoolExecutor) -> None:
    """It is told to repeat, and is in no later commit."""
    publishers = Publishers(callers, wait_seconds=0.01)
    first = publishers.arrive(0)
    publishers.next()

    late = publishers.commits.commit
    with pytest.raises(StorageUnavailable):
        late(a_publication(1))
    publishers.end()

    assert results(first) == [None]
    assert publishers.waiting == 0
    publishers.end()
    late(a_publication(2))
    assert publishers.next() == [2]


def test_a_request_waits_no_longer_for_the_commit_that_it_is_in(
    publishers: Publishers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows whether it will be stored."""
    first = publishers.arrive(0)
    publishers.next()

    def sleep(waiter: _Waiter, seconds: float) -> bool:
        del waiter, seconds
        monkeypatch.undo()
        publishers.end()  # the first commit
        assert publishers.next() == [1, 2]
        return False

    leader = publishers.arrive(1)
    monkeypatch.setattr(_Waiter, "sleep", sleep)
    with pytest.raises(StorageUnavailable):
        publishers.commits.commit(a_publication(2))
    publishers.end()

    assert results([*first, *leader]) == [None, None]


def test_who_is_to_lead_as_its_patience_ends_leads(
    publishers: Publishers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the others in its commit would wait in vain."""
    (first,) = publishers.arrive(0)
    publishers.next()

    def sleep(waiter: _Waiter, seconds: float) -> bool:
        del waiter, seconds
        publishers.end()  # the first commit: this request is to lead the next
        first.result(PATIENCE)
        publishers.end()
        return False

    monkeypatch.setattr(_Waiter, "sleep", sleep)

    assert publishers.commits.commit(a_publication(1)) == Committed(1, 1)
    assert publishers.next() == [1]


def test_each_of_many_requests_gets_its_own_result(callers: ThreadPoolExecutor) -> None:
    """From 32 threads; a tenth fails, and few commits are under way at a time."""
    lock, under_way = threading.Lock(), Counter[str]()
    seen: Counter[int] = Counter()

    def commit(publications: Sequence[Publication]) -> list[Result]:
        with lock:
            under_way["now"] += 1
            under_way["most"] = max(under_way["most"], under_way["now"])
            numbers = [int(each.origin.publish_id, 16) for each in publications]
            seen.update(numbers)
        answers = [
            StorageUnavailable() if number % 10 == 0 else stored(number) for number in numbers
        ]
        with lock:
            under_way["now"] -= 1
        return answers

    numbers = list(range(2000))
    Random(1).shuffle(numbers)
    commits = GroupCommit(commit, wait_seconds=PATIENCE)
    requests = [callers.submit(commits.commit, a_publication(number)) for number in numbers]

    for number, result in zip(numbers, results(requests), strict=True):
        assert result is (StorageUnavailable if number % 10 == 0 else None)
    assert seen == Counter(numbers)
    assert under_way["most"] <= MAX_UNDER_WAY
