"""Replays that are killed at any request to storage lose nothing, and tell what they repeat."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from pushgrid.testing.deployment import Pushgrid
from shared.delivery.messages.message import ReplayStep

EVENTS = [{"id": f"e-{number}", "eventType": "Shop.OrderPlaced"} for number in range(7)]
REQUESTS = {
    "resources": ("get", "put"),
    "queues": ("put",),
    "dead_letters": ("list", "read"),
    "payloads": ("write",),
}


class Killed(BaseException):
    """The process ends."""


class Killer:
    """Ends the process at some of the requests that the steps of replays make."""

    def __init__(self, app: Pushgrid, kills: dict[int, bool]) -> None:
        self.requests = 0
        self._kills = kills  # by number of a request: whether it is done first
        self._steps, self._is_on = app.replay, False
        app.replay = self  # type: ignore[assignment]
        for store, verbs in REQUESTS.items():
            for verb in verbs:
                act = getattr(getattr(app, store), verb)
                setattr(getattr(app, store), verb, self._guarded(act))

    def run(self, step: ReplayStep) -> None:
        self._is_on = True
        try:
            self._steps.run(step)
        finally:
            self._is_on = False

    def _guarded(self, act: Any) -> Any:
        def guarded(*args: Any, **named: Any) -> Any:
            if not self._is_on:
                return act(*args, **named)
            self.requests += 1
            is_done_first = self._kills.get(self.requests)
            found = None if is_done_first is False else act(*args, **named)
            if is_done_first is not None:
                raise Killed
            return found

        return guarded


def replayed(app: Pushgrid, **members: Any) -> Any:
    """Replay; each time the process is killed, the host begins it anew. Return the job."""
    with suppress(Killed):
        app.arm("POST", "replays", members)
    while True:
        with suppress(Killed):
            app.advance(minutes=5)
            break
    return app.arm("GET", "replays")["value"][0]


LARGE = {"id": "large", "eventType": "Shop.OrderPlaced", "data": "".join(map(str, range(30_000)))}


@pytest.mark.parametrize("is_done_first", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(1, 46))
def test_a_replay_that_is_killed_twice_loses_nothing(
    pushgrid: Pushgrid, at: int, *, is_done_first: bool
) -> None:
    orders = pushgrid.topic("orders")
    crm = orders.subscribe("crm", answers=[400] * 8 + [200])
    orders.publish(EVENTS[:5])
    pushgrid.advance(hours=1)
    orders.publish([*EVENTS[5:], LARGE])
    pushgrid.advance(hours=1)
    crm.answer(200)
    killer = Killer(pushgrid, {at: is_done_first, at + 9: is_done_first})

    job = replayed(pushgrid, rate=2)
    received = Counter(each["id"] for each in crm.received)

    assert (job["state"], job["events"], job["replayed"]) == ("Done", 8, 8)
    assert set(received) == {"large", *(each["id"] for each in EVENTS)}
    assert received.total() - 8 <= job["repeated"] <= 2 * 2
    assert replayed(pushgrid)["skipped"] == {"ReplayedBefore": 8}
    assert Counter(each["id"] for each in crm.received) == received
    assert killer.requests >= at
