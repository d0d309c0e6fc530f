"""What is kept of attempts, when it is written, and that nothing depends on it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from pushgrid.testing.memory import START, MemoryAttempts, answered
from shared.delivery.attempt_record import AttemptRecord
from shared.delivery.delivery import Delivery
from shared.delivery.outcome import EndpointAnswer, Outcome
from shared.delivery.policy import EndReason, EndState
from shared.engine.delivering.attempt_history import (
    MOST_UNWRITTEN,
    QUIET_FOR,
    AttemptHistory,
)
from shared.engine.ports import AttemptChoice, Queue
from shared.errors import StorageUnavailable
from shared.http import Failure, NotAnswered
from shared.settings import AttemptLogging
from shared.subscriptions.subscription import Batching, RetryPolicy
from shared.tasks import Tasks
from tests.builders import (
    CRM,
    DEAD,
    ORIGIN,
    PARKED,
    URL,
    a_delivery,
    a_message,
    a_record,
    an_attempt,
    text,
)
from tests.functional.delivering.failing import break_pushes, fan_out, is_of, subscribe, url
from tests.functional.deployment import MINUTE, SECOND, Deployment, Logged

T = TypeVar("T")

DAY = timedelta(days=1)
GONE = a_delivery(origin=PARKED, text=None)


def test_a_failed_attempt_is_kept_with_the_next_time_and_its_reason(app: Deployment) -> None:
    app.subscribe()
    app.pusher.script(URL, answered(503, seconds=1.5))

    app.run(a_message())

    (record,) = app.attempts.records
    assert record == AttemptRecord(
        topic="orders",
        subscription="crm",
        system_id=a_delivery().system_id(CRM),
        event_id="e-0",
        event_type="Shop.OrderPlaced",
        subject="/orders/17",
        published_at=START,
        number=1,
        at=START,
        outcome=record.outcome,
        next_at=START + 30 * SECOND,
        why="minimum for 503: 30 s",
    )
    assert record.event is None
    assert record.outcome
    assert (record.outcome.outcome, record.outcome.status) == (Outcome.BUSY, 503)
    assert record.outcome.seconds == 1.5


@pytest.mark.parametrize("keeps_answers", [True, False])
def test_the_answer_is_kept_once_for_a_request(
    app: Deployment, logged: Logged, *, keeps_answers: bool
) -> None:
    """The other events of a batch refer to it; nothing is kept with a request that succeeds."""
    app.deliver.endpoints.scheduler.push = replace(app.push, keeps_answers=keeps_answers)
    app.subscribe(batching=Batching(max_events=3, preferred_kilobytes=1024))
    app.pusher.script(URL, answered(503, b"database locked", {"retry-after": "9"}))

    app.run(a_message([a_delivery(number) for number in range(3)]))

    kept = [record.outcome and record.outcome.answer for record in app.attempts.records]
    first = a_delivery(0).system_id(CRM)
    whole = EndpointAnswer(first, {"retry-after": "9"}, "database locked")
    reference = EndpointAnswer(first, {}, None)
    assert kept == ([whole, reference, reference] if keeps_answers else [None] * 3)
    found = [line.get("answer") for line in logged("delivery.attempted")]
    assert found == [whole.words if keeps_answers else None]


@pytest.mark.parametrize("events", [1, 3])
def test_of_a_long_id_the_beginning_is_logged_and_kept(
    app: Deployment, caplog: pytest.LogCaptureFixture, events: int
) -> None:
    """It is delivered whole, and the event is found by the whole id."""
    caplog.set_level("INFO", "pushgrid")
    longest = "i" * 30_000
    app.subscribe(batching=Batching(max_events=3, preferred_kilobytes=1024))
    app.pusher.script(URL, answered(400))
    deliveries = [a_delivery(number, text=text(id=longest)) for number in range(events)]

    app.run(a_message(deliveries))

    assert longest.encode() in app.pusher.sent[0].request.body
    lines = [record.getMessage() for record in caplog.records]
    kinds = Counter(json.loads(line)["event"] for line in lines)
    assert (kinds["delivery.attempted"], kinds["delivery.dropped"]) == (1, events)
    assert all("i" * 512 not in line for line in lines)
    found = [each for day in app.attempts.read(*CRM, START, AttemptChoice(longest)) for each in day]
    assert {each.event_id for each in found} == {"i" * 511 + "…"}


@pytest.mark.parametrize("time_scale", [1, 60])
def test_a_dead_letter_is_due_when_its_message_is(app: Deployment, time_scale: float) -> None:
    """The scale is the host's: who reads the record needs no setting of it."""
    app.set_terms(time_scale=time_scale)
    app.subscribe(dead_letter=DEAD)
    app.pusher.script(URL, answered(400))

    app.run(a_message())

    (record,) = app.attempts.records
    assert (record.next_at, record.why) == (None, "400 is never retried")
    assert record.blob_due_at == START + 5 * MINUTE / time_scale
    assert app.waiting(Queue.DEADLETTERS) == [(5 * MINUTE / time_scale, [0])]


@pytest.mark.parametrize(
    ("dead_letter", "delivery", "reason"),
    [(None, a_delivery(), EndReason.BAD_REQUEST), (DEAD, GONE, EndReason.PAYLOAD_MISSING)],
    ids=["no destination", "gone, whatever is configured"],
)
def test_what_is_dropped_is_kept_as_that(
    app: Deployment, dead_letter: Any, delivery: Delivery, reason: EndReason
) -> None:
    app.subscribe(dead_letter=dead_letter)
    app.pusher.script(URL, answered(400))

    app.run(a_message([delivery]))

    (record,) = app.attempts.records
    assert (record.state, record.reason, record.blob_due_at) == (EndState.DROPPED, reason, None)
    assert record.event_id == (delivery.text and "e-0")


def test_an_end_that_is_noticed_when_it_is_due_is_kept_beside_the_attempts(
    app: Deployment,
) -> None:
    app.subscribe(dead_letter=DEAD, retry_policy=RetryPolicy(event_time_to_live_minutes=10))
    app.clock.advance(10 * MINUTE)

    app.run(a_message([a_delivery(attempts=4, last=an_attempt())]))

    (record,) = app.attempts.records
    assert (record.number, record.outcome, record.at) == (4, None, START + 10 * MINUTE)
    assert (record.state, record.reason) == (EndState.DEAD_LETTERED, EndReason.TIME_TO_LIVE)
    assert record.why == "older than 10 min"
    assert record.blob_due_at == START + 10 * MINUTE  # its last attempt is longer ago than the wait


def test_events_that_were_not_tried_leave_no_trace(app: Deployment) -> None:
    """Put back for a shortage, received early, held: no attempt."""
    app.subscribe()
    app.pusher.script(URL, NotAnswered(Failure.SHORTAGE, "Too many open files", 0.0))

    app.run(a_message([a_delivery(0), a_delivery(1)]))
    app.run(a_message(due=START + 10 * SECOND))

    assert app.attempts.writes == []


@pytest.mark.parametrize(
    ("logging", "kept"),
    [
        (AttemptLogging.FAILURES, [(1, None)]),
        (AttemptLogging.ALL, [(0, EndState.DELIVERED), (1, None)]),
        (AttemptLogging.OFF, []),
    ],
)
def test_the_setting_says_which_attempts_are_kept(
    app: Deployment,
    logging: AttemptLogging,
    kept: list[tuple[int, EndState | None]],
    logged: Logged,
) -> None:
    """It also says whether the log has a line for each success."""
    app.keep_attempts(logging)
    app.subscribe()
    app.pusher.script(URL, answered(200), answered(500))

    app.run(a_message([a_delivery(0), a_delivery(1)]))

    found = [(record.event_id, record.state) for record in app.attempts.records]
    assert sorted(found) == [(f"e-{position}", state) for position, state in kept]
    events = [each.event for each in app.attempts.records]
    assert all(events) is (logging is not AttemptLogging.FAILURES)
    assert app.attempts.writes == ([len(kept)] if kept else [])
    successes = [(each["event_id"], each["status"]) for each in logged("delivery.succeeded")]
    assert successes == ([("e-0", 200)] if logging is AttemptLogging.ALL else [])


def test_a_store_that_keeps_attempts_has_no_second_line_for_a_success(
    app: Deployment, logged: Logged
) -> None:
    app.keep_attempts(AttemptLogging.ALL, logs_successes=False)
    app.subscribe()
    app.pusher.script(URL, answered(200), answered(500))

    app.run(a_message([a_delivery(0), a_delivery(1)]))

    assert len(app.attempts.records) == 2
    assert logged("delivery.succeeded") == []
    assert [each["event_id"] for each in logged("delivery.attempted")] == ["e-1"]


def test_what_comes_next_is_stored_first(app: Deployment) -> None:
    """Order of writes: the history is the last of all."""
    seen: list[dict[Queue, int]] = []
    app.attempts.write = lambda _: seen.append(app.all_stored())  # type: ignore[method-assign, assignment]
    app.subscribe(dead_letter=DEAD)
    app.pusher.script(URL, answered(500), answered(413))

    app.run(a_message([a_delivery(0), a_delivery(1)]))

    assert seen == [{Queue.RETRIES: 1, Queue.DEADLETTERS: 1}]


def test_what_could_not_be_stored_is_not_recorded(app: Deployment) -> None:
    """The message comes again, and with it the attempt."""
    app.subscribe()
    app.pusher.script(URL, answered(500))
    app.queues.fail_next("put", 10_000)

    with pytest.raises(StorageUnavailable):
        app.run(a_message())

    assert app.attempts.writes == []


class Broken(MemoryAttempts):
    """Fails in ways that nobody has thought of."""

    def write(self, records: Sequence[AttemptRecord]) -> None:
        raise ValueError(str(len(records)))


@pytest.mark.parametrize("kind", [MemoryAttempts, Broken], ids=["storage", "internal error"])
def test_a_write_that_fails_harms_no_delivery_and_is_logged_once_in_a_while(
    app: Deployment, logged: Logged, kind: type[MemoryAttempts]
) -> None:
    app.attempts = kind()
    app.attempts.fail_next("write", 99)
    app.keep_attempts(AttemptLogging.FAILURES)
    app.subscribe()
    app.pusher.script(URL, answered(500))

    for position in range(3):
        app.run(a_message([a_delivery(position)]))

    assert app.waiting(Queue.RETRIES) == [(10 * SECOND, [position]) for position in range(3)]
    assert [line["count"] for line in logged("attempts.lost")] == [1]
    assert app.slept == []
    app.clock.jump(-timedelta(hours=6))  # It was silent until the clock had caught up.
    app.clock.advance(QUIET_FOR)
    app.run(a_message())
    assert len(logged("attempts.lost")) == 2


@pytest.mark.parametrize(("days", "kept"), [(7, 1), (8, 0)])
def test_a_day_that_was_dropped_does_not_come_back(app: Deployment, days: int, kept: int) -> None:
    app.subscribe()
    origin = ORIGIN._replace(published_at=START - days * DAY)

    app.run(a_message([a_delivery(origin=origin)]))

    assert len(app.attempts.records) == kept


def test_housekeeping_drops_days_older_than_a_week_once_an_hour(app: Deployment) -> None:
    """From its first run on: nothing that waits needs them."""

    def days() -> list[int]:
        records = app.attempts.read("orders", "crm", START - 90 * DAY)
        return sorted((START - day[0].published_at).days for day in records)

    app.attempts.write([a_record(published_at=START - n * DAY) for n in range(10)])
    app.housekeeping.run(app.in_a_minute())
    first = days()
    app.attempts.write([a_record(published_at=START - 9 * DAY)])
    app.housekeeping.run(app.in_a_minute())
    soon = days()
    app.clock.advance(60 * MINUTE)
    app.housekeeping.run(app.in_a_minute())

    assert first == days() == list(range(8))
    assert soon == [*range(8), 9]


@pytest.mark.parametrize("logging", [AttemptLogging.OFF, AttemptLogging.FAILURES])
def test_a_table_that_hangs_keeps_no_message(app: Deployment, logging: AttemptLogging) -> None:
    """A kill meanwhile repeats nothing, as without rows: the message is gone."""
    app.keep_attempts(logging, off_loop=hanging)
    app.subscribe(dead_letter=DEAD)
    app.pusher.script(URL, answered(400))
    message = a_message([a_delivery(number) for number in range(64)])

    task = app.begin(message)
    app.loop.advance(2 * SECOND)
    undeleted = [] if task.done() else [message]
    app.deliver = app.new_process()
    for each in undeleted:
        app.begin(each)
    app.loop.advance(2 * SECOND)

    assert sorted(each for _, group in app.waiting(Queue.DEADLETTERS) for each in group) == [
        *range(64)
    ]


async def hanging(call: Callable[[], T]) -> T:
    await asyncio.sleep(3600)
    return call()


async def slow(call: Callable[[], T]) -> T:
    await asyncio.sleep(3)
    return call()


def begin_to_write(app: Deployment, log: MemoryAttempts, *rows: int) -> AttemptHistory:
    """Let a history have these numbers of rows to write, the first of them already under way."""
    history = AttemptHistory(
        log=log,
        off_loop=slow,
        tasks=Tasks(),
        logging=AttemptLogging.ALL,
        clock=app.watched,
    )

    async def add(count: int) -> None:
        history.add([a_record()] * count)

    for count in rows:
        app.loop.run(add(count))
        app.loop.settle()
    return history


@pytest.mark.parametrize("fails", [True, False])
def test_what_comes_during_a_write_shares_the_next_if_there_is_one(
    app: Deployment, logged: Logged, *, fails: bool
) -> None:
    """A stop waits for both."""
    log = MemoryAttempts()
    log.fail_next("write", 99 if fails else 0, after=True)
    history = begin_to_write(app, log, 1, *[1] * 19)
    assert app.clock.now() == START

    app.loop.run(history.write_all())

    assert log.writes == ([1] if fails else [1, 19])
    assert app.clock.now() - START == len(log.writes) * 3 * SECOND
    assert [line["count"] for line in logged("attempts.lost")] == ([20] if fails else [])


def test_rows_beyond_the_bound_are_lost_with_a_line(app: Deployment, logged: Logged) -> None:
    """Those under way count; then it pauses, and goes on."""
    log = MemoryAttempts()
    history = begin_to_write(app, log, 100, MOST_UNWRITTEN - 100, 0, 2, 3)
    app.loop.run(history.write_all())
    app.clock.advance(QUIET_FOR)
    app.loop.call_soon(history.add, [a_record()])
    app.loop.advance(MINUTE)

    assert log.writes == [100, MOST_UNWRITTEN - 100, 1]
    (line,) = logged("attempts.lost")
    assert (line["count"], line["detail"]) == (2, "10000 rows wait to be written")


@pytest.mark.parametrize("status", [200, 503])
def test_attempts_of_a_part_that_fails_are_kept(app: Deployment, status: int) -> None:
    """An internal error with one event repeats them all; the attempts were made."""
    app.keep_attempts(AttemptLogging.ALL)
    subscribe(app, "crm", "other")
    app.pusher.script(url("crm"), answered(status))
    held = app.hold('"e-1"')
    break_pushes(
        app, ValueError("internal"), lambda each: is_of("crm")(each) and each.batch[0].position == 1
    )

    app.begin(fan_out("crm", "other", events=2))
    held.let_go()
    app.loop.advance(2 * SECOND)

    kept = sorted((each.subscription, each.event_id) for each in app.attempts.records)
    assert kept == [("crm", "e-0"), ("other", "e-0"), ("other", "e-1")]
