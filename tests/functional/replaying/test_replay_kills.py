"""Replays that are killed at any request to storage lose nothing, and tell what they repeat."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from pushgrid.testing.deployment import Pushgrid
from pushgrid.testing.topic import Subscriber
from shared.delivery.messages.message import ReplayStep
from shared.delivery.messages.message_writer import encode_step
from shared.engine.ports import Queue, Table
from shared.engine.replaying import step
from tests.functional.replaying.replays import Killed, before

EVENTS = [{"id": f"e-{number}", "eventType": "Shop.OrderPlaced"} for number in range(7)]
REQUESTS = {
    "resources": ("get", "put"),
    "queues": ("put",),
    "dead_letters": ("list", "read"),
    "payloads": ("write",),
}


class Killer:
    """Ends the process at some of the requests that the steps of replays make."""

    def __init__(self, app: Pushgrid, kills: set[int]) -> None:
        self.requests = 0
        self._kills = kills  # numbers of requests, which are done: so the next ones are not
        self._steps, self._is_on = app._app.replay, False
        app._app.replay = self  # type: ignore[assignment]
        for store, verbs in REQUESTS.items():
            for verb in verbs:
                act = getattr(getattr(app._app, store), verb)
                setattr(getattr(app._app, store), verb, self._guarded(act))

    def run(self, asked: ReplayStep) -> None:
        self._is_on = True
        try:
            self._steps.run(asked)
        finally:
            self._is_on = False

    def _guarded(self, act: Any) -> Any:
        def guarded(*args: Any, **named: Any) -> Any:
            if not self._is_on:
                return act(*args, **named)
            self.requests += 1
            found = act(*args, **named)
            if self.requests in self._kills:
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


@pytest.mark.parametrize("at", range(1, 46))
def test_a_replay_that_is_killed_twice_loses_nothing(
    pushgrid: Pushgrid, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    monkeypatch.setattr(step, "SPAN", 2)  # so that it takes several steps
    orders = pushgrid.topic("orders")
    crm = orders.subscribe("crm", answers=[400] * 8 + [200])
    orders.publish(EVENTS[:5])
    pushgrid.advance(hours=1)
    orders.publish([*EVENTS[5:], LARGE])
    pushgrid.advance(hours=1)
    crm.answer(200)
    killer = Killer(pushgrid, {at, at + 9})

    job = replayed(pushgrid, rate=2)
    received = Counter(each["id"] for each in crm.received)

    assert (job["state"], job["events"], job["replayed"]) == ("Done", 8, 8)
    assert set(received) == {"large", *(each["id"] for each in EVENTS)}
    assert received.total() - 8 <= job["repeated"] <= 2 * 2
    assert replayed(pushgrid)["skipped"] == {"ReplayedBefore": 8}
    assert Counter(each["id"] for each in crm.received) == received
    assert killer.requests >= at


@pytest.fixture
def seven(pushgrid: Pushgrid) -> Subscriber:
    """A subscription with a dead letter of each event."""
    subscriber = pushgrid.topic("orders").subscribe("crm", answers=[400] * 7 + [200])
    subscriber.topic.publish(EVENTS)
    pushgrid.advance(hours=1)
    return subscriber


def test_a_batch_that_was_recorded_is_not_repeated(
    pushgrid: Pushgrid, seven: Subscriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, kills = pushgrid._app.resources.put, iter([True])

    def killed(table: Table, partition: str, *rest: Any) -> Any:
        found = put(table, partition, *rest)
        if (table, partition) == (Table.REPLAYS, "blob") and next(kills, False):
            raise Killed
        return found

    monkeypatch.setattr(pushgrid._app.resources, "put", killed)

    job = replayed(pushgrid)

    assert (job["replayed"], job["repeated"], len(seven.received)) == (7, 0, 7)
    assert next(kills, None) is None


@pytest.mark.usefixtures("seven")
def test_a_step_that_comes_twice_starts_no_second_line_of_steps(
    pushgrid: Pushgrid, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step, "SPAN", 2)
    job = pushgrid.arm("POST", "replays", {"rate": 1})
    first = ReplayStep(job=job["id"], number=1)
    pushgrid._app.queues.put(Queue.RETRIES, encode_step(first))

    pushgrid.advance(seconds=1)
    waiting = [text for text in pushgrid._app.queues.texts(Queue.RETRIES) if '"job"' in text]

    assert len(waiting) == 1


@pytest.mark.usefixtures("seven")
@pytest.mark.parametrize("has_run_before", [False, True])
def test_who_starts_a_job_and_its_first_step_may_claim_it_at_once(
    pushgrid: Pushgrid, monkeypatch: pytest.MonkeyPatch, *, has_run_before: bool
) -> None:
    if has_run_before:
        replayed(pushgrid, dryRun=True)
    put, claims = pushgrid._app.resources.put, iter([True])

    def raced(table: Table, partition: str, *rest: Any) -> None:
        if (table, partition) == (Table.REPLAYS, "state") and next(claims, False):
            put(table, partition, *rest)

    before(monkeypatch, pushgrid._app.resources, "put", raced)

    job = replayed(pushgrid)

    assert (job["state"], job["replayed"]) == ("Done", 7)
    assert next(claims, None) is None
