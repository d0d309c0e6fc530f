"""
The wall clock is set, and set back, while the process runs, or it is wrong when it starts.

A stopped machine is one, too. Storage keeps its own time, and tells it with each answer. Every
story ends with what the rules say by the clock that is right: storage's.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from pushgrid.testing.memory import START, FakeClock, answered
from shared.clock import moment_of
from shared.delivery.delivery import Delivery
from shared.delivery.gate import Held, Open
from shared.engine.ports import Queue, Table
from shared.errors import StorageUnavailable
from shared.subscriptions.subscription import (
    EventSubscription,
    Pause,
    RetryPolicy,
    SubscriptionKey,
)
from tests.builders import DEAD, ORIGIN, URL, a_delivery, a_message, a_subscription
from tests.functional.delivering.failing import another_process, availability, play
from tests.functional.deployment import MINUTE, SECOND, Deployment, Logged
from tests.functional.operations.test_status import health
from tests.functional.publish_requests import event
from tests.functional.publish_requests import publish as publish_events

HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _storage_tells_its_time(app: Deployment) -> None:
    app.tell_time()


AnotherProcess = Callable[[Deployment], object]
either = pytest.mark.parametrize(
    "go_on", [lambda _: None, another_process], ids=["this process", "another process"]
)


def publish(app: Deployment, number: int, **choices: Any) -> None:
    """Deliver an event that was published just now."""
    app.run(a_message([an_event_of_now(app, number)], **choices))


def an_event_of_now(app: Deployment, number: int = 0, **choices: Any) -> Delivery:
    origin = ORIGIN._replace(publish_id=f"p-{number}", published_at=app.watched.now())
    return a_delivery(number, origin=origin, **choices)


def pushed(app: Deployment) -> list[str]:
    return [json.loads(sent.request.body)[0]["id"] for sent in app.pusher.sent]


def fail_once(app: Deployment) -> None:
    """Let an event's first attempt fail: it waits for a retry, and its endpoint is held."""
    app.pusher.script(URL, answered(503))
    publish(app, 0)
    app.pusher.script(URL, answered(200))
    app.pusher.sent.clear()


def written(app: Deployment) -> list[str]:
    rows = app.resources.list(Table.TOPICS, "state")
    return sorted(each.name for each in rows if each.name.startswith("clock-"))


@either
def test_6_hours_ahead_and_back(app: Deployment, logged: Logged, go_on: AnotherProcess) -> None:
    """The endpoint was held, and its event not retried, until the clock had caught up."""
    app.subscribe(dead_letter=DEAD)
    app.clock.jump(6 * HOUR)
    fail_once(app)
    app.clock.jump(-6 * HOUR)
    go_on(app)

    publish(app, 1)
    play(app, 11 * SECOND)
    assert pushed(app) == ["e-1"]
    play(app, 11 * MINUTE)

    assert pushed(app) == ["e-1", "e-0"]
    assert app.all_stored() == {}
    assert {"due time", "publish time"} <= {line["what"] for line in logged("clock.bounded")}
    subscription = a_subscription(dead_letter=DEAD)
    assert isinstance(availability(app, subscription), Open)


@either
def test_a_hold_that_was_6_hours_ahead_comes_nearer_while_no_row_can_be_written(
    app: Deployment, go_on: AnotherProcess
) -> None:
    """It is bounded once: bounded at every read, it would be as far away as before."""
    app.subscribe()
    app.clock.jump(6 * HOUR)
    fail_once(app)
    app.clock.jump(-6 * HOUR)
    go_on(app)
    app.resources.fail_next("put", 1000)

    publish(app, 1)
    play(app, 5 * SECOND)
    publish(app, 2)
    play(app, 6 * SECOND)

    assert sorted(pushed(app)) == ["e-1", "e-2"]


def test_a_hold_that_was_6_hours_ahead_is_corrected_in_its_row_by_who_reads_it(
    app: Deployment,
) -> None:
    """Or each process that starts would hold anew, for as long as a hold may last."""
    app.subscribe()
    app.clock.jump(6 * HOUR)
    fail_once(app)
    app.clock.jump(-6 * HOUR)
    another_process(app)

    publish(app, 1)

    [row] = app.resources.list(Table.ENDPOINT_HEALTH, "orders")
    assert moment_of(row.document["heldUntil"]) == app.clock.now() + 10 * SECOND


def test_a_write_that_failed_6_hours_ahead_keeps_no_hold_from_others(app: Deployment) -> None:
    app.subscribe()
    app.clock.jump(6 * HOUR)
    app.watched.now()  # the note of the jump is stored, the hold is not
    app.resources.fail_next("put")
    fail_once(app)
    app.clock.jump(-6 * HOUR)
    app.clock.advance(5 * SECOND)  # then it is written again

    publish(app, 1)
    another_process(app)
    publish(app, 2)

    assert pushed(app) == []


def test_after_6_hours_ahead_and_back_an_endpoint_can_be_held_again(app: Deployment) -> None:
    """A release that was still to come ended every hold as it began."""
    app.subscribe()
    app.clock.jump(6 * HOUR)
    fail_once(app)
    play(app, MINUTE)
    assert pushed(app) == ["e-0"]
    app.clock.jump(-6 * HOUR)

    for _ in range(2):  # the first failure after a success holds nothing
        fail_once(app)

    held = availability(app, a_subscription())
    assert isinstance(held, Held)
    assert held.until == app.clock.now() + 10 * SECOND


@either
def test_6_hours_behind_and_back(app: Deployment, go_on: AnotherProcess) -> None:
    """Retries were "early" for 6 hours, and a hold lasted as much longer."""
    app.subscribe()
    fail_once(app)
    app.clock.jump(-6 * HOUR)
    go_on(app)

    publish(app, 1)
    play(app, 11 * MINUTE)

    assert sorted(pushed(app)) == ["e-0", "e-1"]
    app.clock.jump(6 * HOUR)
    publish(app, 2)
    assert pushed(app)[2:] == ["e-2"]
    assert app.all_stored() == {}


def test_30_hours_ahead_ends_nothing_for_ten_minutes_and_then_storages_clock_counts(
    app: Deployment, logged: Logged
) -> None:
    app.subscribe(dead_letter=DEAD)
    app.pusher.script(URL, answered(500))
    publish(app, 0)
    app.clock.jump(30 * HOUR)

    play(app, 23 * HOUR)

    assert logged("delivery.ended") == []
    assert [line["seconds"] for line in logged("clock.jumped")] == [30 * 3600]
    assert abs(app.watched.now() - app.clock.elsewhere.now()) <= SECOND
    play(app, 13 * HOUR)
    assert [line["reason"] for line in logged("delivery.ended")] == ["TimeToLiveExceeded"]


def test_where_storage_is_on_the_same_machine_its_clock_counts_after_ten_minutes(
    app: Deployment, logged: Logged
) -> None:
    app.tell_time(by=app.clock)
    app.subscribe(dead_letter=DEAD)
    app.clock.advance(SECOND)
    publish(app, 9)
    app.pusher.script(URL, answered(500))
    publish(app, 0)
    app.clock.jump(30 * HOUR)

    play(app, 9 * MINUTE)

    assert logged("delivery.ended") == []
    assert [line["seconds"] for line in logged("clock.jumped")] == [30 * 3600]
    play(app, 9 * MINUTE)
    assert [line["reason"] for line in logged("delivery.ended")] == ["TimeToLiveExceeded"]
    assert app.all_stored() == {Queue.DEADLETTERS: 1}


def published_at(app: Deployment) -> list[datetime]:
    """Return when what waits was published, as it is stored."""
    found = app.on(Queue.RETRIES) + app.on(Queue.WAITING)
    return [each.origin.published_at for message in found for each in message.deliveries]


def test_30_hours_ahead_and_back_an_event_is_as_old_as_it_can_be(app: Deployment) -> None:
    """One that was published meanwhile would live for 30 hours more: it is corrected, if late."""
    app.subscribe(dead_letter=DEAD)
    app.clock.jump(30 * HOUR)
    fail_once(app)
    app.pusher.script(URL, answered(500))
    app.clock.jump(-30 * HOUR)
    back_at = app.clock.now()

    play(app, MINUTE)

    assert published_at(app) == [back_at + 30 * HOUR]
    play(app, 10 * MINUTE)
    app.wake.run(app.in_a_minute())  # as every minute: storage answers
    play(app, 19 * MINUTE)
    [corrected] = published_at(app)
    assert back_at + 10 * MINUTE <= corrected <= back_at + 30 * MINUTE
    play(app, 36 * HOUR)
    assert app.all_stored() == {Queue.DEADLETTERS: 1}


def test_an_expiration_that_only_a_jump_has_reached_ends_nothing(app: Deployment) -> None:
    app.tell_time(by=app.clock)
    app.subscribe(expires_at=app.clock.now() + 24 * HOUR)
    app.clock.jump(30 * HOUR)

    publish(app, 1)

    assert pushed(app) == ["e-1"]
    app.clock.advance(10 * MINUTE)
    publish(app, 2)
    assert pushed(app) == ["e-1"]


def test_a_jump_and_what_was_bounded_are_in_status_for_ten_minutes(
    app: Deployment, logged: Logged
) -> None:
    """Health said `healthy` while everything was held."""
    app.subscribe()
    app.clock.jump(6 * HOUR)
    fail_once(app)
    app.clock.jump(-6 * HOUR)
    another_process(app)
    for number in range(1, 5):
        publish(app, number)
    play(app, MINUTE)

    found: Any = health(app)

    assert found["status"] == "degraded"
    assert found["reasons"] == [
        "a due time was 21600 s ahead of the clock",
        "a hold was 21610 s ahead of the clock",
        "a clock has jumped by -21600 s; events do not expire for now",
        "a publish time was 21570 s ahead of the clock",
    ]
    assert [each["what"] for each in found["clock"]] == [
        *("due time", "hold", "jump", "publish time")
    ]
    assert len(logged("clock.bounded")) == 3
    app.clock.advance(10 * MINUTE)
    assert health(app)["status"] == "healthy"


def test_what_was_bounded_is_logged_once_in_ten_minutes(app: Deployment, logged: Logged) -> None:
    app.subscribe()
    for minutes in (0, 9, 1):
        app.clock.advance(minutes * MINUTE)
        ahead = ORIGIN._replace(published_at=app.clock.now() + 6 * HOUR)
        app.run(a_message([a_delivery(minutes, origin=ahead)]))

    assert len(logged("clock.bounded")) == 2


def test_what_can_not_be_noted_stops_nothing(app: Deployment, logged: Logged) -> None:
    app.subscribe()
    app.clock.jump(6 * HOUR)
    app.resources.fail_next("get", 10)

    publish(app, 1)

    assert (pushed(app), written(app)) == (["e-1"], [])
    assert len(logged("clock.jumped")) == 1


BEHIND = [
    pytest.param(lambda app: app.clock.jump(-2 * HOUR), id="was set back"),
    pytest.param(lambda app: app.start_at(-2 * HOUR), id="started so"),
]


@pytest.mark.parametrize("go_wrong", BEHIND)
def test_a_timer_that_is_two_hours_behind_for_two_minutes_ends_no_event(
    app: Deployment, logged: Logged, go_wrong: Callable[[Deployment], None]
) -> None:
    """It stored what it woke with times of two hours ago, and others ended that as too old."""
    app.subscribe(dead_letter=DEAD, retry_policy=RetryPolicy(event_time_to_live_minutes=120))
    for number in range(5):
        waiting = an_event_of_now(app, number, attempts=3)
        app.put(Queue.WAITING, a_message([waiting], due=app.watched.now() + MINUTE))
    came_with = app.clock.now()
    go_wrong(app)

    app.wake.run(app.in_a_minute())
    stored = set(published_at(app))
    app.clock.advance(2 * MINUTE)
    app.clock.jump(2 * HOUR)
    app.watched.now()
    app.clock.advance(11 * MINUTE)  # as every other process, it is settled
    play(app, 30 * MINUTE)

    assert stored == {came_with}
    assert sorted(pushed(app)) == [f"e-{number}" for number in range(5)]
    assert logged("delivery.ended") == []


@pytest.mark.parametrize("go_wrong", BEHIND)
def test_what_a_process_that_is_behind_requeues_keeps_its_times(
    app: Deployment, logged: Logged, go_wrong: Callable[[Deployment], None]
) -> None:
    app.subscribe(dead_letter=DEAD, retry_policy=RetryPolicy(event_time_to_live_minutes=120))
    waiting = an_event_of_now(app)
    go_wrong(app)
    app.subscribe(
        dead_letter=DEAD,
        retry_policy=RetryPolicy(event_time_to_live_minutes=120),
        pause=Pause(app.clock.now(), "me"),
    )

    app.run(a_message([waiting]))
    app.pusher.script(URL, answered(503))
    app.subscribe(dead_letter=DEAD, retry_policy=RetryPolicy(event_time_to_live_minutes=120))
    play(app, 20 * MINUTE)

    assert set(published_at(app)) == {waiting.origin.published_at}
    app.clock.jump(2 * HOUR)
    app.watched.now()
    play(app, HOUR)
    assert logged("delivery.ended") == []
    play(app, 6 * HOUR)
    assert [line["reason"] for line in logged("delivery.ended")] == ["TimeToLiveExceeded"]


@pytest.mark.parametrize("by", [30 * HOUR, -30 * HOUR], ids=["ahead", "behind"])
@pytest.mark.parametrize("is_paused", [False, True], ids=["", "paused"])
def test_a_host_that_starts_with_a_wrong_clock_drops_nothing_that_waits(
    app: Deployment, logged: Logged, by: timedelta, *, is_paused: bool
) -> None:
    """Half of what waited was dropped as too old, while health said `healthy`."""
    pause = Pause(app.clock.now(), "me") if is_paused else None
    app.subscribe(pause=pause)
    waiting = a_message([an_event_of_now(app, 0), an_event_of_now(app, 1)])
    app.clock.advance(HOUR)
    app.start_at(by)

    app.run(waiting)
    found = health(app)
    play(app, 23 * HOUR - MINUTE)

    assert (logged("delivery.ended"), logged("delivery.dropped")) == ([], [])
    assert len(pushed(app)) == (0 if is_paused else 2)
    [line] = logged("clock.jumped")
    assert (line["against"], round(line["seconds"], -1)) == ("storage", by.total_seconds())
    differs = [each for each in found["reasons"] if "differs from storage's by" in each]
    assert len(differs) == 1
    play(app, 2 * HOUR)
    assert len(logged("delivery.dropped")) == (2 if is_paused else 0)


def test_what_a_run_30_hours_behind_has_published_is_not_old_for_the_next(
    app: Deployment, logged: Logged
) -> None:
    """Its messages, holds and dead letters have storage's time, once it has told it."""
    app.subscribe(dead_letter=DEAD)
    app.start_at(-30 * HOUR)
    app.pusher.script(URL, answered(503))
    assert publish_events(app, event()).status == 200
    [published] = app.queues.texts(Queue.DELIVERIES)
    app.queues.stored.clear()
    app.work(published)
    app.start_at(30 * HOUR)

    play(app, 23 * HOUR)

    assert logged("delivery.ended") == []
    assert len(pushed(app)) > 5


def test_a_process_without_an_answer_of_storage_ends_nothing(
    app: Deployment, logged: Logged
) -> None:
    """What judging needs is in its memory."""
    app.subscribe()
    waiting = an_event_of_now(app)
    app.directory.answered = lambda: None
    app.start_at(30 * HOUR)

    app.run(a_message([waiting]))

    assert pushed(app) == ["e-0"]
    assert logged("delivery.dropped") == []


@pytest.mark.parametrize("go_wrong", BEHIND)
def test_a_process_that_is_behind_and_idle_cuts_no_time_of_publication(
    app: Deployment, go_wrong: Callable[[Deployment], None]
) -> None:
    """What came after ten minutes without an answer of storage was stored as two hours older."""
    app.subscribe()
    go_wrong(app)
    app.watched.now()
    app.clock.advance(11 * MINUTE)
    published = app.clock.elsewhere.now()
    app.pusher.script(URL, answered(503))

    app.run(a_message([a_delivery(origin=ORIGIN._replace(published_at=published))]))

    assert published_at(app) == [published]


def test_an_expiration_is_not_judged_by_a_clock_that_has_jumped(app: Deployment) -> None:
    """What was answered with 200 was delivered to nobody."""
    app.subscribe(expires_at=app.clock.now() + 24 * HOUR)
    app.clock.jump(30 * HOUR)

    assert publish_events(app, event()).status == 200

    assert app.all_stored() == {Queue.DELIVERIES: 1}


def test_the_read_before_an_end_tells_of_a_clock_that_went_wrong_unseen(
    app: Deployment, logged: Logged, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both clocks of the process agree: a virtual machine was moved in time."""
    subscription = app.subscribe()
    old = an_event_of_now(app)
    app.clock.advance(30 * HOUR)
    app.tell_time(by=FakeClock(START + MINUTE))
    tell, app.directory.answered = app.directory.answered, lambda: None

    def read(_: SubscriptionKey) -> EventSubscription:
        tell()
        return subscription

    monkeypatch.setattr(app.directory, "read_uncached", read)

    app.run(a_message([old]))

    assert pushed(app) == ["e-0"]
    assert logged("delivery.dropped") == []


def test_what_grows_too_old_in_a_line_ends_only_by_storages_time(
    app: Deployment, logged: Logged, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was judged before; when its endpoint is held, the read before the end tells the time."""
    app.set_terms(probation_counts_attempt=True)
    subscription = app.subscribe(retry_policy=RetryPolicy(event_time_to_live_minutes=1))
    app.limit_pushes(1)
    held = app.hold("e-0")
    app.pusher.script(URL, answered(404))
    old = an_event_of_now(app, 1)
    app.clock.advance(50 * SECOND)
    app.begin(a_message([an_event_of_now(app, 0)]))
    app.begin(a_message([old]))
    app.loop.advance(15 * SECOND)
    app.tell_time(by=FakeClock(START - 30 * HOUR))
    tell, app.directory.answered = app.directory.answered, lambda: None

    def read(_: SubscriptionKey) -> EventSubscription:
        tell()
        return subscription

    monkeypatch.setattr(app.directory, "read_uncached", read)
    held.let_go("e-0")
    app.loop.advance(2 * SECOND)

    assert len(logged("hold.began")) == 1
    assert not app.watched.is_trusted
    assert (logged("delivery.ended"), logged("delivery.dropped")) == ([], [])


def test_a_put_that_fails_once_is_repeated_though_the_clock_jumps(app: Deployment) -> None:
    """The message came again, and all of it was pushed once more."""
    app.subscribe()
    app.pusher.script(URL, answered(503))
    put_all = app.deliver.requeue.sender.put_all
    tries = []

    async def jump_then_fail(*args: Any) -> Any:
        tries.append(args)
        if len(tries) == 1:
            app.clock.jump(2 * HOUR)
            return [StorageUnavailable("busy")]
        return await put_all(*args)

    app.deliver.requeue.sender.put_all = jump_then_fail  # type: ignore[assignment,method-assign]

    publish(app, 0)

    assert (len(tries), app.all_stored()) == (2, {Queue.RETRIES: 1})


@pytest.mark.parametrize("by", [7 * HOUR, -7 * HOUR])
def test_a_run_of_a_timer_lasts_as_long_though_the_clock_jumps(
    app: Deployment, monkeypatch: pytest.MonkeyPatch, by: timedelta
) -> None:
    """Set forward, nothing was done; set back, the run went on for hours."""
    receive, received = app.queues.receive, []

    def slowly(*args: Any) -> Any:
        app.clock.jump(by)
        app.clock.advance(25 * SECOND)
        app.put(Queue.WAITING, a_message([an_event_of_now(app)]))
        received.append(args)
        assert len(received) < 10
        return receive(*args)

    monkeypatch.setattr(app.queues, "receive", slowly)

    app.wake.run(app.in_a_minute())

    assert len(received) == 3
