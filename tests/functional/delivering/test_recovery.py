"""An endpoint that was down for a minute gets everything, and never three times its usual rate."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from shared.http import Exchange, Failure, LateAnswerHandler, NotAnswered, OutboundRequest
from tests.fakes import FakeClock, ScriptedPusher, answered
from tests.functional.delivering.playing import RATE, play
from tests.functional.deployment import SECOND, Deployment

UP, DOWN, AGAIN = 20, 60, 20  # seconds of publishing before, while and after it is down
EVENTS = RATE * (UP + DOWN + AGAIN)
REFUSED = NotAnswered(Failure.SOCKET, "refused", 0.0)


class Outage(ScriptedPusher):
    """Fails for a minute; keeps which event it took, and when it was asked."""

    def __init__(self, clock: FakeClock, failure: Exchange) -> None:
        super().__init__(clock)
        self._failure = failure
        self._down_from = clock.now() + UP * SECOND
        self.up_from = self._down_from + DOWN * SECOND
        self.asked: list[datetime] = []
        self.taken: Counter[str] = Counter()

    def send(
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
    [answered(503), REFUSED, answered(404), answered(500)],
    ids=["503", "refused", "404", "500"],
)
def test_what_was_held_comes_back_paced(app: Deployment, failure: Exchange) -> None:
    app.subscribe()
    endpoint = Outage(app.clock, failure)
    app.deliver = replace(app.deliver, pusher=endpoint)

    play(app, EVENTS)

    assert len(endpoint.taken) == EVENTS
    assert set(endpoint.taken.values()) == {1}
    assert _peak([at for at in endpoint.asked if at >= endpoint.up_from]) <= 3 * RATE


def _peak(times: list[datetime]) -> float:
    """Return the most requests a second over any 5 s; *times* are in order."""
    return max(bisect_left(times, at + 5 * SECOND) - first for first, at in enumerate(times)) / 5
