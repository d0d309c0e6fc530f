"""An endpoint that was down, or asks for a rate or a pause, gets everything at a bearable rate."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable
from datetime import datetime
from random import Random

import pytest

from pushgrid.testing.memory import START, answered
from pushgrid.testing.memory.pushing import Sent
from shared.engine.ports import Queue
from shared.http import Exchange, Failure, NotAnswered
from tests.builders import URL, a_delivery, a_message, a_topic
from tests.functional.delivering.failing import answer_by, play, pushed
from tests.functional.deployment import MINUTE, SECOND, Deployment, Logged


def test_what_is_beyond_the_rate_goes_back_paced_and_uncounted(app: Deployment) -> None:
    app.subscribe(rate=20)

    app.run(a_message([a_delivery(number) for number in range(6)]))

    assert pushed(app) == 3
    waiting = app.on(Queue.RETRIES)
    rest = [each for message in waiting for each in message.deliveries]
    assert sorted(each.position for each in rest) == [3, 4, 5]
    assert {each.attempts for each in rest} == {0}
    step = 61 / 18
    dues = sorted((m.due - app.clock.now()) / SECOND for m in waiting if m.due)
    assert dues[-1] == round(3 * step, 6)


def test_a_probe_beyond_the_rate_is_returned(app: Deployment) -> None:
    app.subscribe(rate=1)
    app.pusher.script(URL, NotAnswered(Failure.SOCKET, "refused", 0), answered(200))
    app.run(a_message([a_delivery(1)]))
    app.clock.advance(31 * SECOND)

    app.run(a_message([a_delivery(2)]))
    assert pushed(app) == 1
    app.clock.advance(31 * SECOND)
    app.run(a_message([a_delivery(2)]))

    assert pushed(app) == 2


@pytest.mark.parametrize(
    ("honored", "waits"), [(True, 45), (False, 30)], ids=["honored", "the default"]
)
def test_a_busy_endpoint_is_left_alone_for_as_long_as_it_asks(
    app: Deployment, logged: Logged, *, honored: bool, waits: int
) -> None:
    app.subscribe()
    app.set_terms(honor_retry_after=honored)
    app.pusher.script(URL, answered(503, headers={"retry-after": "45"}))

    app.run(a_message())

    (message,) = app.on(Queue.RETRIES)
    assert message.due == START + waits * SECOND
    (line,) = logged("delivery.attempted")
    expected = "Retry-After of the endpoint: 45 s" if honored else "minimum for 503: 30 s"
    assert line["why"] == expected


RATE = 20  # events a second, each published on its own
UP, DOWN, AGAIN = 20, 60, 20  # seconds of publishing before, while and after it is down
UP_FROM = START + (UP + DOWN) * SECOND
BUSY = 0.02  # of all requests


def publish(
    app: Deployment, events: int, fails: Callable[[datetime], Exchange | None]
) -> list[datetime]:
    """
    Publish evenly, and deliver what is due, until the endpoint has got each event once.

    Return when it got them.
    """
    app.subscribe()
    taken: list[tuple[datetime, str]] = []

    def answer(sent: Sent) -> Exchange:
        if failure := fails(sent.at):
            return failure
        taken.append((sent.at, json.loads(sent.request.body)[0]["id"]))
        return answered(200, seconds=0)

    answer_by(app, answer)
    for number in range(events):
        app.run(a_message([a_delivery(number)]))
        play(app, SECOND / RATE)
    play(app, 10 * MINUTE)
    got = sorted(int(event.removeprefix("e-")) for _, event in taken)
    assert got == list(range(events))
    return [at for at, _ in taken]


@pytest.mark.slow
@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(answered(503), id="503"),
        pytest.param(answered(404), id="404", marks=pytest.mark.slow),
    ],
)
def test_what_was_held_comes_back_paced(app: Deployment, failure: Exchange) -> None:
    down_from = START + UP * SECOND

    publish(
        app,
        RATE * (UP + DOWN + AGAIN),
        lambda now: failure if down_from <= now < UP_FROM else None,
    )

    assert _peak([sent.at for sent in app.pusher.sent if sent.at >= UP_FROM]) <= 3 * RATE


def _peak(times: list[datetime]) -> float:
    """Return the most requests a second over any 5 s; *times* are in order."""
    return max(bisect_left(times, at + 5 * SECOND) - first for first, at in enumerate(times)) / 5


def in_a_minute(profile: str, seed: int) -> int:
    """Return how many of 1,200 events are there when the last one has been published."""
    app, chance = Deployment(), Random(seed)
    app.directory.topics["orders"] = a_topic(profile=profile)

    taken = publish(
        app,
        60 * RATE,
        lambda _: answered(503, seconds=0) if chance.random() < BUSY else None,
    )

    return sum(at < START + MINUTE for at in taken)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 16], ids=["none in a row", "twice two"])
def test_one_busy_answer_in_fifty_costs_next_to_nothing(seed: int) -> None:
    """Only two in a row hold everything for ten seconds; each alone would, it were 370 events."""
    assert in_a_minute("latest", seed) >= 0.9 * in_a_minute("2020", seed)
