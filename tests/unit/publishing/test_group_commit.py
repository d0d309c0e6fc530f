"""Group commit: a loop that is led turn by turn, commits that end when they may."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from pushgrid.testing.memory import FakeClock
from shared.delivery.messages.publication import Publication
from shared.engine.publishing import group_commit
from shared.engine.publishing.commit import CommitResult
from shared.engine.publishing.group_commit import LIMIT, MAX_UNDER_WAY, GroupCommit
from shared.errors import StorageUnavailable
from shared.tasks import Tasks
from tests.functional.publishing.publications import a_publication

REQUEST: contextvars.ContextVar[str] = contextvars.ContextVar("request")
NO_RESULT = StorageUnavailable()
FEW_TURNS = 10  # of the loop: more than a request takes to begin a commit, or to be answered

Request = asyncio.Task[None]
Answer = Callable[[int], CommitResult]  # by the number of the publication


def stored(_: int) -> CommitResult:
    return None


def raising(error: BaseException) -> Answer:
    def answer(_: int) -> CommitResult:
        raise error

    return answer


def failing(*numbers: int) -> Answer:
    return lambda number: StorageUnavailable() if number in numbers else None


def numbers_of(publications: Sequence[Publication]) -> list[int]:
    return [int(each.origin.publish_id, 16) for each in publications]


class Publishers:
    """Requests on a loop whose clock stands still, and the commits that they make."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.commits = GroupCommit(self._commit, Tasks())
        self.loop = loop
        self.begun: list[list[int]] = []  # the publications of each commit, by their numbers
        self._ends: list[asyncio.Future[Answer]] = []  # of the commits that are under way

    async def _commit(self, publications: Sequence[Publication]) -> list[CommitResult]:
        end = self.loop.create_future()
        self.begun.append(numbers_of(publications))
        self._ends.append(end)
        answer = await end
        results = [answer(number) for number in numbers_of(publications)]
        return [each for each in results if each is not NO_RESULT]

    def send(self, *numbers: int, data: str = "") -> list[Request]:
        """Send requests, which arrive in the next turn."""
        publications = [a_publication(number, data=data) for number in numbers]
        return [self.loop.create_task(self.commits.commit(each)) for each in publications]

    def turn(self, times: int = 1) -> None:
        """Let the loop do what is to be done now, and not what that leads to."""
        for _ in range(times):
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()

    def arrive(self, *numbers: int, data: str = "") -> list[Request]:
        """Let requests arrive, and all that follows from it."""
        sent = self.send(*numbers, data=data)
        self.turn(FEW_TURNS)
        return sent

    def end(self, answer: Answer = stored, place: int = 0) -> None:
        """End a commit, and all that follows from it."""
        self._ends.pop(place).set_result(answer)
        self.turn(FEW_TURNS)


@pytest.fixture
def publishers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Publishers]:
    """Nothing goes wrong in the loop itself, as it would if a request were answered twice."""
    loop, faults = asyncio.new_event_loop(), list[dict[str, Any]]()
    monkeypatch.setattr(loop, "time", FakeClock().monotonic)
    loop.set_exception_handler(lambda _, fault: faults.append(fault))
    publishers = Publishers(loop)
    yield publishers
    for request in asyncio.all_tasks(loop):
        request.cancel()
    publishers.turn(FEW_TURNS)
    loop.close()
    assert faults == []


def results(requests: Sequence[Request]) -> list[type[BaseException] | None]:
    faults = [request.exception() for request in requests]
    return [type(fault) if fault else None for fault in faults]


@pytest.mark.parametrize("turns", [1, 2])
def test_what_has_arrived_by_the_time_a_commit_begins_joins_it(
    publishers: Publishers, turns: int
) -> None:
    """The loop may take two turns to read what arrives: one for the message, one for its task."""
    for number in range(5):
        publishers.send(number)
        publishers.turn(turns)
    assert publishers.begun == []
    publishers.turn(FEW_TURNS)

    assert publishers.begun == [[0, 1, 2, 3, 4]]


def test_a_commit_that_is_full_waits_for_no_more(publishers: Publishers) -> None:
    for number in range(LIMIT.requests + FEW_TURNS):
        publishers.send(number)
        publishers.turn()

    assert publishers.begun == [list(range(LIMIT.requests))]


def test_publishers_that_wait_for_their_answers_share_all_commits(publishers: Publishers) -> None:
    """They are one commit after the other, not two groups that take turns."""

    async def publish(number: int) -> None:
        for _ in range(4):
            await publishers.commits.commit(a_publication(number))
            for _ in range(number % 3):
                await asyncio.sleep(0)

    requests = [publishers.loop.create_task(publish(number)) for number in range(16)]
    publishers.turn(FEW_TURNS)
    for _ in range(4):
        publishers.end()

    assert [sorted(commit) for commit in publishers.begun] == [list(range(16))] * 4
    assert all(request.done() for request in requests)


def test_the_memory_of_what_waits_is_bounded(
    publishers: Publishers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While storage hangs, more is refused at once; what waits is stored when it is back."""
    monkeypatch.setattr(group_commit, "MAX_WAITING", 1500)
    first, *waiting = (publishers.arrive(number, data="x" * 900) for number in range(3))
    (refused,) = publishers.arrive(3)

    assert results([refused]) == [StorageUnavailable]
    for _ in range(2):
        publishers.end()
    assert results([request for each in (first, *waiting) for request in each]) == [None] * 3


def test_what_arrives_during_a_commit_shares_the_next(publishers: Publishers) -> None:
    first = publishers.arrive(0)
    assert publishers.begun == [[0]]  # without waiting for others: no time passes
    others = [*publishers.arrive(1), *publishers.arrive(2, 3)]

    publishers.end()
    assert results(first) == [None]  # answered while the next is under way
    assert publishers.begun == [[0], [1, 2, 3]]
    assert not any(request.done() for request in others)
    publishers.end()

    assert results(others) == [None] * 3


@pytest.mark.parametrize(
    ("answer", "faults"),
    [
        pytest.param(failing(2), [None, StorageUnavailable, None], id="one put"),
        pytest.param(failing(1), [StorageUnavailable, None, None], id="the first"),
        pytest.param(raising(StorageUnavailable()), [StorageUnavailable] * 3, id="all"),
        pytest.param(raising(KeyError("a bug")), [RuntimeError] * 3, id="a bug"),
        pytest.param(raising(StopIteration()), [RuntimeError] * 3, id="no value for a future"),
        pytest.param(
            lambda number: NO_RESULT if number == 2 else None,
            [RuntimeError] * 3,
            id="a result is missing",
        ),
    ],
)
def test_a_commit_fails_those_that_failed_in_it(
    publishers: Publishers, answer: Answer, faults: list[type[BaseException] | None]
) -> None:
    first = publishers.arrive(0)
    others = publishers.arrive(1, 2, 3)
    publishers.end()
    last = publishers.arrive(4)
    publishers.end(answer)
    assert publishers.begun == [[0], [1, 2, 3], [4]]
    publishers.end()

    assert results([*first, *others, *last]) == [None, *faults, None]


def test_requests_of_a_process_that_ends_are_to_be_repeated(publishers: Publishers) -> None:
    requests = publishers.arrive(0, 1)
    for task in asyncio.all_tasks(publishers.loop) - set(requests):
        task.cancel()
    publishers.turn(FEW_TURNS)

    assert results(requests) == [StorageUnavailable] * 2


def test_full_commits_end_in_any_order(publishers: Publishers) -> None:
    full, rest = LIMIT.requests * MAX_UNDER_WAY, 3
    requests = publishers.arrive(*range(full + rest))
    assert [len(commit) for commit in publishers.begun] == [LIMIT.requests] * (MAX_UNDER_WAY - 1)

    publishers.end(place=2)
    assert [len(commit) for commit in publishers.begun[MAX_UNDER_WAY - 1 :]] == [LIMIT.requests, 3]
    assert publishers.begun[-1] == [full, full + 1, full + 2]
    for _ in range(MAX_UNDER_WAY):
        publishers.end(place=-1)

    assert results(requests) == [None] * (full + rest)


def test_a_request_that_is_cancelled_is_in_no_later_commit(publishers: Publishers) -> None:
    """If it is in one by now, the others in it are answered."""
    gone, other = publishers.arrive(0, 1)
    late, last = publishers.arrive(2, 3)
    gone.cancel()
    late.cancel()
    publishers.end()
    publishers.end()

    assert publishers.begun == [[0, 1], [3]]
    assert [request.cancelled() for request in (gone, late)] == [True, True]
    assert results([other, last]) == [None, None]


def test_a_commit_is_not_its_first_requests_own() -> None:
    """What it logs belongs to no request: the host drops the lines of those that have ended."""
    of_commits = []

    async def commit(publications: Sequence[Publication]) -> list[CommitResult]:
        of_commits.append(REQUEST.get("none"))
        return [stored(number) for number in numbers_of(publications)]

    async def publish() -> None:
        REQUEST.set("one")
        await GroupCommit(commit, Tasks()).commit(a_publication(0))

    asyncio.run(publish())

    assert of_commits == ["none"]
