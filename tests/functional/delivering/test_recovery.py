"""An endpoint that was down, or refuses now and then, gets everything at a bearable rate."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from datetime import datetime, timedelta
from random import Random

import pytest

from pushgrid.testing.memory import START, FakeClock, ScriptedPusher, answered
from shared.http import Exchange, LateAnswerHandler, OutboundRequest
from tests.builders import a_topic
from tests.functional.delivering.playing import RATE, play
from tests.functional.deployment import MINUTE, SECOND, Deployment

UP, DOWN, AGAIN = 20, 60, 20  # seconds of publishing before, while and after it is down
EVENTS = RATE * (UP + DOWN + AGAIN)


class Outage(ScriptedPusher):
    """Fails for a minute; keeps which event it took, and when it was asked."""

    def __init__(self, clock: FakeClock, failure: Exchange) -> None:
        super().__init__(clock)
        self._failure = failure
        self._down_from = clock.now() + UP * SECOND
        self.up_from = self._down_from + DOWN * SECOND
        self.asked: list[datetime] = []
        self.taken: Counter[str] = Counter()

    async def send(
        self, request: OutboundRequest, timeout: timedelta, late: LateAnswerHandler | None = None
    ) -> Exchange:
        del timeout, late
        now = self._clock.now()
        self.asked.append(now)
        if self._down_from <= now < self.up_from:
            return self._failure
        self.taken[json.loads(request.body)[0]["id"]] += 1
        return answered(200, seconds=0)


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(answered(503), id="503"),
        pytest.param(answered(404), id="404", marks=pytest.mark.slow),
    ],
)
def test_what_was_held_comes_back_paced(app: Deployment, failure: Exchange) -> None:
    app.subscribe()
    endpoint = Outage(app.clock, failure)
    app.push_with(endpoint)

    play(app, EVENTS)

    assert len(endpoint.taken) == EVENTS
    assert set(endpoint.taken.values()) == {1}
    assert _peak([at for at in endpoint.asked if at >= endpoint.up_from]) <= 3 * RATE


def _peak(times: list[datetime]) -> float:
    """Return the most requests a second over any 5 s; *times* are in order."""
    return max(bisect_left(times, at + 5 * SECOND) - first for first, at in enumerate(times)) / 5


IN_A_MINUTE = 60 * RATE
BUSY = 0.02  # of all requests


class Flaky(ScriptedPusher):
    """Answers some requests with 503; keeps which event it took when."""

    def __init__(self, clock: FakeClock, seed: int) -> None:
        super().__init__(clock)
        self._random = Random(seed)
        self.asked = 0
        self.taken: Counter[str] = Counter()
        self.times: list[datetime] = []

    async def send(
        self, request: OutboundRequest, timeout: timedelta, late: LateAnswerHandler | None = None
    ) -> Exchange:
        del timeout, late
        self.asked += 1
        if self._random.random() < BUSY:
            return answered(503, seconds=0)
        self.taken[json.loads(request.body)[0]["id"]] += 1
        self.times.append(self._clock.now())
        return answered(200, seconds=0)


def in_a_minute(profile: str, seed: int) -> int:
    """Return how many of 1,200 events are there when the last one has been published."""
    app = Deployment()
    app.directory.topics["orders"] = a_topic(profile=profile)
    app.subscribe()
    endpoint = Flaky(app.clock, seed)
    app.push_with(endpoint)
    play(app, IN_A_MINUTE)
    assert len(endpoint.taken) == IN_A_MINUTE
    assert set(endpoint.taken.values()) == {1}
    return sum(at < START + MINUTE for at in endpoint.times)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 16], ids=["none in a row", "twice two"])
def test_one_busy_answer_in_fifty_costs_next_to_nothing(seed: int) -> None:
    """Only two in a row hold everything for ten seconds; each alone would, it were 370 events."""
    assert in_a_minute("latest", seed) >= 0.9 * in_a_minute("2020", seed)
