"""An endpoint that takes everything, but always after the timeout, is slow and not down."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from threading import Barrier
from typing import TypeVar

import pytest

from shared.engine.ports import PushResult, Queue
from shared.http import Exchange, Failure, Late, NotAnswered, OutboundRequest
from tests.builders import a_delivery, a_message, a_topic
from tests.fakes import FakeClock, InlinePushPool, ScriptedPusher, answered
from tests.functional.deployment import MINUTE, SECOND, Deployment

T = TypeVar("T")
R = TypeVar("R", bound=PushResult)

TOGETHER = 12  # pushes at a time: more than delayed delivery needs
TIMEOUT, TAKES = 30 * SECOND, 35 * SECOND
EVENTS, ROUNDS = 30, 10  # published together, and how often


class Slow(ScriptedPusher):
    """Answers 200 after 35 s; requests that were sent together time out together."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self._on_their_way: list[tuple[datetime, Late]] = []
        self.got: Counter[str] = Counter()
        self.meeting = Barrier(1)

    def send(
        self, request: OutboundRequest, timeout: timedelta, late: Late | None = None
    ) -> Exchange:
        assert (timeout, late is not None) == (TIMEOUT, True)
        self.got.update(event["id"] for event in json.loads(request.body))
        if late:
            self._on_their_way.append((self._clock.now() + TAKES, late))
        self.meeting.wait(10)
        return NotAnswered(Failure.TIMED_OUT, "no answer in time", TIMEOUT.total_seconds())

    def pass_time(self, until: datetime) -> None:
        """Let the time pass, and answer on the way."""
        while self._on_their_way and self._on_their_way[0][0] <= until:
            at, late = self._on_their_way.pop(0)
            self._clock.advance(at - self._clock.now())
            late.report(answered(200, seconds=TAKES.total_seconds()))
        self._clock.advance(max(until - self._clock.now(), timedelta()))


class SideBySide(InlinePushPool):
    """Pushes some at a time, in threads: none ends before all have begun."""

    def __init__(self, endpoint: Slow, clock: FakeClock) -> None:
        super().__init__()
        self._endpoint, self._clock = endpoint, clock

    def run(
        self,
        key: Hashable,
        items: Sequence[T],
        work: Callable[[T], R],
        *,
        stop_after: timedelta,
        detach: Callable[[], bool],
    ) -> Iterator[list[tuple[T, R]]]:
        del key, stop_after, detach
        for first in range(0, len(items), TOGETHER):
            going = items[first : first + TOGETHER]
            until = self._clock.now() + TIMEOUT
            passes = partial(self._endpoint.pass_time, until)
            self._endpoint.meeting = Barrier(len(going), passes)
            with ThreadPoolExecutor(len(going)) as threads:
                yield list(zip(going, threads.map(work, going), strict=True))


@pytest.mark.parametrize("profile", ["2020", "2023", "latest"])
def test_an_endpoint_that_always_answers_late_is_not_held_for_long(
    app: Deployment, profile: str
) -> None:
    """A message at a time, 300 events take about an hour, and no day that ends before they do."""
    app.directory.topics["orders"] = a_topic(profile=profile)
    app.subscribe()
    endpoint = Slow(app.clock)
    pool = SideBySide(endpoint, app.clock)
    app.deliver = replace(app.deliver, pusher=endpoint, pool=pool)
    began = app.clock.now()
    for number in range(ROUNDS):
        events = [a_delivery(number * EVENTS + each) for each in range(EVENTS)]
        app.put(Queue.DELIVERIES, a_message(events))

    while app.all_stored():
        for queue in (Queue.DELIVERIES, Queue.RETRIES):
            for received in app.queues.receive(queue, 60 * MINUTE):
                app.deliver.run(received.text.encode())
                app.queues.delete(queue, received)
        app.wake.run()
        endpoint.pass_time(app.clock.now() + SECOND)

    assert endpoint.got == {f"e-{number}": 1 for number in range(ROUNDS * EVENTS)}
    assert app.clock.now() - began < 90 * MINUTE
