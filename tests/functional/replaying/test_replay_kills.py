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
from tests.functional.replaying.replays import before
from tests.kills import Killed, Killer

EVENTS = [{"id": f"e-{number}", "eventType": "Shop.OrderPlaced"} for number in range(7)]


class StepKiller:
    """Ends the process at some of the requests that the steps of replays make."""

    def __init__(self, patch: pytest.MonkeyPatch, pushgrid: Pushgrid, kills: set[int]) -> None:
        app = pushgrid._app
        requests = {
            app.resources: ("get", "put"),
            app.queues: ("put",),
            app.dead_letters: ("list", "read"),
            app.payloads: ("write",),
        }
        self.killer = Killer(patch, requests, kills)
        self.killer.is_on = False
        self._steps = app.replay
        patch.setattr(app, "replay", self)

    def run(self, message: ReplayStep) -> None:
        self.killer.is_on = True
        try:
            self._steps.run(message)
        finally:
            self.killer.is_on = False


def replayed_through_kills(app: Pushgrid, **members: Any) -> Any:
    """Replay; each time the process is killed, the host begins it anew. Return the job."""
    with suppress(Killed):
        app.arm("POST", "replays", members)
    while True:
        with suppress(Killed):
            app.advance(minutes=5)
            break
    return app.arm("GET", "replays")["value"][0]


LARGE = {"id": "large", "eventType": "Shop.OrderPlaced", "data": "".join(map(str, range(30_000)))}


REQUESTS = 42  # to storage, of the replay below if nothing kills it


@pytest.mark.parametrize("at", range(1, REQUESTS + 1))
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
    # The second kill comes in what the host begins anew after the first.
    steps = StepKiller(monkeypatch, pushgrid, {at, at + 9})

    job = replayed_through_kills(pushgrid, rate=2)
    received = Counter(each["id"] for each in crm.received)

    assert (job["state"], job["events"], job["replayed"]) == ("Done", 8, 8)
    assert set(received) == {"large", *(each["id"] for each in EVENTS)}
    assert received.total() - 8 <= job["repeated"] <= 2 * 2
    assert replayed_through_kills(pushgrid)["skipped"] == {"ReplayedBefore": 8}
    assert Counter(each["id"] for each in crm.received) == received
    assert steps.killer.requests > REQUESTS


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

    job = replayed_through_kills(pushgrid)

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
        replayed_through_kills(pushgrid, dryRun=True)
    put, claims = pushgrid._app.resources.put, iter([True])

    def raced(table: Table, partition: str, *rest: Any) -> None:
        if (table, partition) == (Table.REPLAYS, "state") and next(claims, False):
            put(table, partition, *rest)

    before(monkeypatch, pushgrid._app.resources, "put", raced)

    job = replayed_through_kills(pushgrid)

    assert (job["state"], job["replayed"]) == ("Done", 7)
    assert next(claims, None) is None
