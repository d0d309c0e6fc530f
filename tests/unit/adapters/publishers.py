"""Publishers on a loop that is led turn by turn, and commits that end when they may."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta

from pushgrid.testing.memory import FakeClock
from shared.adapters.group_commit import GroupCommit
from shared.delivery.messages.publication import Publication
from shared.engine.publishing.commit import CommitResult
from shared.errors import StorageUnavailable
from tests.functional.publishing.publications import a_publication

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

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: FakeClock) -> None:
        self.commits = GroupCommit(self._commit)
        self.loop = loop
        self.begun: list[list[int]] = []  # the publications of each commit, by their numbers
        self._ends: list[asyncio.Future[Answer]] = []  # of the commits that are under way
        self._clock = clock

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

    def wait(self, seconds: float) -> None:
        self._clock.advance(timedelta(seconds=seconds))
        self.turn(FEW_TURNS)
