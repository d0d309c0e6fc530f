"""How long a publisher waits for an answer, by the clock of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import pytest

from shared.delivery.messages.publication import Publication
from shared.engine.publishing.commit import CommitResult
from shared.engine.publishing.group_commit import GroupCommit
from shared.errors import Forbidden, StorageUnavailable
from shared.tasks import Tasks
from tests.builders import a_topic, an_event
from tests.functional.deployment import SECOND, Deployment, Logged
from tests.functional.publish_requests import code, event, publish_request

T = TypeVar("T")


class SlowStorage:
    """What commits are made with: each takes *seconds*."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.stored: list[str] = []  # the events of each request

    async def __call__(self, publications: Sequence[Publication]) -> list[CommitResult]:
        await asyncio.sleep(self.seconds)
        self.stored += ["".join(each.texts) for each in publications]
        return [None] * len(publications)


class Publishers:
    """Publishers to *app*: when each was answered, in seconds, and how."""

    def __init__(self, app: Deployment, storage: SlowStorage) -> None:
        app.subscribe()
        app.publish = replace(app.publish, commits=GroupCommit(storage, Tasks()))
        self.app, self.began = app, app.clock.monotonic()
        self.answers: dict[int, tuple[float, int]] = {}

    def send(self, number: int) -> None:
        self.app.loop.create_task(self._publish(number))
        self.app.loop.settle()

    async def _publish(self, number: int) -> None:
        answer = await self.app.publish.run(publish_request(event(number)))
        if answer.status != 200:
            assert (answer.status, code(answer)) == (503, "ServiceUnavailable")
        at = round(self.app.clock.monotonic() - self.began, 3)
        self.answers[number] = (at, answer.status)


def numbers(storage: SlowStorage) -> list[int]:
    return [number for text in storage.stored for number in range(9) if f'"e-{number}"' in text]


def test_who_waits_for_the_commit_before_its_own_is_answered_within_twenty_seconds(
    app: Deployment,
) -> None:
    """What is in a commit when the time is over may be stored: nobody knows."""
    storage = SlowStorage(16)
    publishers = Publishers(app, storage)
    publishers.send(0)
    app.loop.advance(SECOND)
    publishers.send(1)
    app.loop.advance(60 * SECOND)

    assert publishers.answers == {0: (16, 200), 1: (21, 503)}
    assert numbers(storage) == [0, 1]


def test_what_waits_for_its_commit_when_the_time_is_over_is_never_stored(app: Deployment) -> None:
    storage = SlowStorage(30)
    publishers = Publishers(app, storage)
    for number in range(3):
        publishers.send(number)
        app.loop.advance(SECOND)
    storage.seconds = 0
    app.loop.advance(22 * SECOND)
    publishers.send(3)
    app.loop.advance(60 * SECOND)

    assert publishers.answers == {0: (20, 503), 1: (21, 503), 2: (22, 503), 3: (30, 200)}
    assert numbers(storage) == [0, 3]


@pytest.mark.parametrize(("reading", "stored"), [(15, [0]), (25, [])])
def test_the_time_for_reading_counts(
    app: Deployment, monkeypatch: pytest.MonkeyPatch, reading: int, stored: list[int]
) -> None:
    async def read(name: str) -> None:
        assert name == "orders"
        await asyncio.sleep(reading)

    monkeypatch.setattr(app.directory, "ready", read)
    monkeypatch.setattr(app.directory, "knows", lambda *_: False)
    storage = SlowStorage(10)
    publishers = Publishers(app, storage)
    publishers.send(0)
    app.loop.advance(60 * SECOND)

    assert publishers.answers == {0: (20, 503)}
    assert numbers(storage) == stored


def test_a_request_that_was_refused_is_not_refused_again_when_its_thread_ends(
    app: Deployment, monkeypatch: pytest.MonkeyPatch, logged: Logged
) -> None:
    async def late(call: Callable[[], T]) -> T:
        await asyncio.sleep(21)
        return call()

    async def off_loop(call: Callable[[], T]) -> T:
        return await asyncio.shield(asyncio.ensure_future(late(call)))

    def forbid(*_: object) -> None:
        raise Forbidden

    publishers = Publishers(app, SlowStorage(0))
    app.publish = replace(app.publish, off_loop=off_loop)
    monkeypatch.setattr(app.directory, "knows", lambda *_: False)
    monkeypatch.setattr(type(app.publish.authorization), "check", forbid)
    publishers.send(0)
    app.loop.advance(60 * SECOND)

    assert publishers.answers == {0: (20, 503)}
    (line,) = logged("publish.refused")
    assert line["status"] == 503
    assert "unknown_topic" not in line


def test_events_of_our_own_wait_no_longer(app: Deployment) -> None:
    Publishers(app, SlowStorage(25))
    began = app.clock.monotonic()

    with pytest.raises(StorageUnavailable):
        app.loop.run(app.publish.accept(a_topic(), [an_event()], "p-1"))

    assert app.clock.monotonic() - began == 20
