"""An endpoint that was down, or refuses now and then, gets everything at a bearable rate."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random

import pytest

from pushgrid.testing.memory import START, FakeClock, ScriptedPusher, answered
from shared.http import Exchange, LateAnswerHandler, OutboundRequest
from tests.builders import a_delivery, a_message, a_topic
from tests.functional.delivering.failing import play
from tests.functional.deployment import MINUTE, SECOND, Deployment

RATE = 20  # events a second, each published on its own
UP, DOWN, AGAIN = 20, 60, 20  # seconds of publishing before, while and after it is down
UP_FROM = START + (UP + DOWN) * SECOND
BUSY = 0.02  # of all requests


class Endpoint(ScriptedPusher):
    """Accepts or *fails*; keeps when it was asked, and when it took which event."""

    def __init__(self, clock: FakeClock, fails: Callable[[datetime], Exchange | None]) -> None:
        super().__init__(clock)
        self._fails = fails
        self.asked: list[datetime] = []
        self.taken: list[tuple[datetime, str]] = []

    async def send(
        self, request: OutboundRequest, timeout: timedelta, late: LateAnswerHandler | None = None
    ) -> Exchange:
        del timeout, late
        now = self._clock.now()
        self.asked.append(now)
        if failure := self._fails(now):
            return failure
        self.taken.append((now, json.loads(request.body)[0]["id"]))
        return answered(200, seconds=0)


def publish(app: Deployment, events: int, fails: Callable[[datetime], Exchange | None]) -> Endpoint:
    """Publish evenly, and deliver what is due, until the endpoint has got each event once."""
    app.subscribe()
    endpoint = Endpoint(app.clock, fails)
    app.push_with(endpoint)
    for number in range(events):
        app.run(a_message([a_delivery(number)]))
        play(app, SECOND / RATE)
    play(app, 10 * MINUTE)
    got = sorted(int(event.removeprefix("e-")) for _, event in endpoint.taken)
    assert got == list(range(events))
    return endpoint


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(answered(503), id="503"),
        pytest.param(answered(404), id="404", marks=pytest.mark.slow),
    ],
)
def test_what_was_held_comes_back_paced(app: Deployment, failure: Exchange) -> None:
    down_from = START + UP * SECOND

    endpoint = publish(
        app,
        RATE * (UP + DOWN + AGAIN),
        lambda now: failure if down_from <= now < UP_FROM else None,
    )

    assert _peak([at for at in endpoint.asked if at >= UP_FROM]) <= 3 * RATE


def _peak(times: list[datetime]) -> float:
    """Return the most requests a second over any 5 s; *times* are in order."""
    return max(bisect_left(times, at + 5 * SECOND) - first for first, at in enumerate(times)) / 5


def in_a_minute(profile: str, seed: int) -> int:
    """Return how many of 1,200 events are there when the last one has been published."""
    app, chance = Deployment(), Random(seed)
    app.directory.topics["orders"] = a_topic(profile=profile)

    endpoint = publish(
        app,
        60 * RATE,
        lambda _: answered(503, seconds=0) if chance.random() < BUSY else None,
    )

    return sum(at < START + MINUTE for at, _ in endpoint.taken)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 16], ids=["none in a row", "twice two"])
def test_one_busy_answer_in_fifty_costs_next_to_nothing(seed: int) -> None:
    """Only two in a row hold everything for ten seconds; each alone would, it were 370 events."""
    assert in_a_minute("latest", seed) >= 0.9 * in_a_minute("2020", seed)
