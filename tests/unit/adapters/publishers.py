"""Publishers on a loop that is led turn by turn, and commits that end when they may."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from datetime import timedelta
from functools import partial
from typing import Any

from pushgrid.testing.memory import FakeClock
from shared.adapters.group_commit import GroupCommit
from shared.delivery.messages.publication import Publication
from shared.engine.ports import Committed
from shared.engine.publishing.commit import Result
from shared.errors import StorageUnavailable
from tests.functional.publishing.publications import a_publication

NO_RESULT = Committed(0, 0)
FEW_TURNS = 10  # of the loop: more than a request takes to begin a commit, or to be answered

Request = asyncio.Task[Committed]
Answer = Callable[[int], Result]  # by the number of the publication


def stored(_: int) -> Result:
    return Committed(1, 1)


def raising(error: BaseException) -> Answer:
    def answer(_: int) -> Result:
        raise error

    return answer


def failing(*numbers: int) -> Answer:
    return lambda number: StorageUnavailable() if number in numbers else Committed(1, 1)


def numbers_of(publications: Sequence[Publication]) -> list[int]:
    return [int(each.origin.publish_id, 16) for each in publications]


class Threads(Executor):
    """Commits that have begun, each until `end`; *begun* has the publications' numbers."""

    def __init__(self) -> None:
        self.begun: list[list[int]] = []
        self.has_none = False
        self._calls: list[Callable[[], None]] = []

    def submit(self, call: Callable[..., Any], /, *args: Any, **_: Any) -> Future[Any]:
        if self.has_none:
            raise RuntimeError("can't start new thread")
        done = Future[Any]()
        self.begun.append(numbers_of(args[0]))
        self._calls.append(partial(_run, done, partial(call, *args)))
        return done

    def end(self, place: int = 0) -> None:
        self._calls.pop(place)()


def _run(done: Future[Any], call: Callable[[], Any]) -> None:
    try:
        done.set_result(call())
    except BaseException as error:  # noqa: BLE001 - as on a thread of an executor
        done.set_exception(error)


class Publishers:
    """Requests on a loop whose clock stands still, and the commits that they make."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: FakeClock) -> None:
        self.threads = Threads()
        self.commits = GroupCommit(self._commit, self.threads)
        self.answer: Answer = stored
        self.loop = loop
        self._clock = clock

    def _commit(self, publications: Sequence[Publication]) -> list[Result]:
        results = [self.answer(number) for number in numbers_of(publications)]
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
        self.answer = answer
        self.threads.end(place)
        self.turn(FEW_TURNS)

    def wait(self, seconds: float) -> None:
        self._clock.advance(timedelta(seconds=seconds))
        self.turn(FEW_TURNS)

    @property
    def begun(self) -> list[list[int]]:
        return self.threads.begun
