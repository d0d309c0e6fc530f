"""Housekeeping deletes what is expired, but not after a gap in its runs; how many events wait."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from pushgrid.testing.memory import START
from shared.engine.ports import Queue, Table
from shared.engine.ports.measures import Unfinished
from shared.engine.timers.waiting_events import read_offsets, unfinished_events
from shared.errors import Conflict, StorageUnavailable
from shared.metrics import CountRow, Metric, Series, Span, Sum
from shared.subscriptions.subscription import SubscriptionKey
from tests.builders import a_message, a_record
from tests.functional.deployment import MINUTE, SECOND, Deployment, Logged

HOUR = timedelta(hours=1)


def run_housekeeping(app: Deployment) -> None:
    app.housekeeping.run(app.in_a_minute())


def run_every_hour(app: Deployment, times: int) -> list[int]:
    """Return how many payloads each run has left."""
    kept = []
    for _ in range(times):
        run_housekeeping(app)
        kept.append(len(app.payloads.blobs))
        app.clock.advance(HOUR)
    return kept


def test_expired_payloads_are_deleted_once_an_hour(app: Deployment) -> None:
    run_every_hour(app, 25)
    app.payloads.write("old", START - 3 * HOUR, ["x"])

    run_housekeeping(app)
    app.payloads.write("older", START - 5 * HOUR, ["x"])
    app.clock.advance(59 * MINUTE)
    run_housekeeping(app)

    assert [name.split("/")[1].split("-")[0] for name in app.payloads.blobs] == ["older"]


def test_the_first_run_deletes_nothing_for_a_day(app: Deployment) -> None:
    app.payloads.write("old", START - HOUR, ["x"])

    kept = run_every_hour(app, 25)

    assert kept == [1] * 24 + [0]


@pytest.mark.parametrize(("gap", "kept"), [(3 * HOUR, 0), (3 * HOUR + SECOND, 1)])
def test_after_a_gap_nothing_is_deleted_for_a_day(
    app: Deployment, gap: timedelta, kept: int
) -> None:
    """Design §2, order of writes 5: the app was down, and its messages are late."""
    run_every_hour(app, 26)
    app.payloads.write("old", START, ["x"])
    app.clock.advance(gap - HOUR)

    after_gap, *_, in_a_day = run_every_hour(app, 25)

    assert (after_gap, in_a_day) == (kept, 0)


def test_only_one_of_two_instances_deletes(
    app: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.payloads.fail_next("delete_expired")

    def taken(*_: object) -> object:
        raise Conflict

    monkeypatch.setattr(app.resources, "put", taken)

    run_housekeeping(app)

    assert app.resources.get(Table.TOPICS, "state", "housekeeping") is None


@pytest.mark.parametrize(
    ("store", "verb"),
    [
        ("payloads", "delete_expired"),
        ("attempts", "delete_before"),
        ("counts", "roll_up"),
        ("counts", "delete_before"),
    ],
)
def test_what_cannot_be_deleted_keeps_nothing_else(
    app: Deployment, count: Callable[..., None], store: str, verb: str
) -> None:
    """A blob under a lease stopped all housekeeping, for as long as it had one."""
    run_every_hour(app, 25)
    app.payloads.write("old", START, ["x"])
    app.attempts.write([a_record(published_at=START - 9 * 24 * HOUR)])
    count(1)
    old = next(iter(app.counts.rows.values()))._replace(start=START - 40 * 24 * HOUR)
    app.counts.write([old._replace(span=Span.MINUTE), old])
    app.clock.advance(2 * HOUR)
    getattr(app, store).fail_next(verb)

    with pytest.raises(StorageUnavailable):
        run_housekeeping(app)

    spans = [row.span for row in app.counts.rows.values() if row.start == old.start]
    left = {
        ("payloads", "delete_expired"): len(app.payloads.blobs),
        ("attempts", "delete_before"): len(app.attempts.records),
        ("counts", "roll_up"): spans.count(Span.HOUR),
        ("counts", "delete_before"): spans.count(Span.MINUTE),
    }
    assert left == {each: int(each == (store, verb)) for each in left}


@pytest.mark.parametrize("damage", [None, [], {}, {"lastRun": "x"}, {"lastRun": 1, "holdUntil": 2}])
def test_a_damaged_record_of_its_runs_counts_as_none(
    app: Deployment, logged: Logged, damage: object
) -> None:
    """It failed for ever: neither payloads nor tables of attempts were deleted any more."""
    run_every_hour(app, 26)
    app.resources.damage(Table.TOPICS, "state", "housekeeping", damage)
    app.payloads.write("old", START, ["x"])

    kept = run_every_hour(app, 25)

    assert kept == [1] * 24 + [0]
    [line] = logged("document.unreadable")
    named = [line[each] for each in ("table", "partition", "row")]
    assert named == ["topics", "state", "housekeeping"]


def test_a_last_run_that_is_still_to_come_stops_no_housekeeping(app: Deployment) -> None:
    """A clock that was ahead has run it: nothing was deleted until the others had caught up."""
    run_every_hour(app, 25)
    app.clock.jump(300 * HOUR)
    app.watched.now()
    app.clock.advance(10 * MINUTE)
    run_housekeeping(app)
    app.clock.jump(-300 * HOUR)
    app.watched.now()
    app.clock.advance(10 * MINUTE)
    app.payloads.write("old", START, ["x"])

    kept = run_every_hour(app, 25)

    assert kept == [1] * 24 + [0]


def test_a_clock_that_is_not_settled_deletes_nothing(app: Deployment) -> None:
    """A jump of 300 hours deleted all attempts of a week, and the counts of a month."""
    run_every_hour(app, 25)
    app.attempts.write([a_record(published_at=app.clock.now())])
    app.clock.jump(300 * HOUR)

    run_housekeeping(app)
    kept = len(app.attempts.records)
    app.clock.advance(10 * MINUTE)
    run_housekeeping(app)

    assert (kept, len(app.attempts.records)) == (1, 0)


CRM, ERP = SubscriptionKey("orders", "crm"), SubscriptionKey("orders", "erp")
DROPPED = (("DropReason", "TimeToLiveExceeded"),)
DEAD = (("DeadLetterReason", "TimeToLiveExceeded"),)


@pytest.fixture
def count(app: Deployment) -> Callable[..., None]:
    """Store the counts of a process: all that it has counted so far."""

    def write(
        matched: int,
        delivered: int = 0,
        dropped: int = 0,
        dead: int = 0,
        given_up: int = 0,
        **of: str,
    ) -> None:
        values = {
            Series(Metric.MATCHED): matched,
            Series(Metric.DELIVERY_SUCCESS): delivered,
            Series(Metric.DROPPED, DROPPED): dropped,
            Series(Metric.DEAD_LETTERED, DEAD): dead,
            Series(Metric.AWAITING_BLOB): given_up,
        }
        counts = {series: Sum(value, 1, value, value) for series, value in values.items()}
        now, name = app.clock.now(), of.get("name", "crm")
        hour = now.replace(minute=0, second=0, microsecond=0)
        app.counts.write([CountRow(Span.HOUR, hour, "orders", name, "a", counts)])

    return write


@pytest.fixture
def look(app: Deployment) -> Callable[..., None]:
    """Let the timer look, so many times, a minute apart."""

    def run(times: int = 1) -> None:
        for _ in range(times):
            app.watch_queues.run(app.in_a_minute())
            app.watch_waiting.run(app.in_a_minute())
            app.clock.advance(MINUTE)

    return run


def waits(app: Deployment) -> dict[SubscriptionKey, Unfinished]:
    return unfinished_events(app.counts.totals(), read_offsets(app.resources))


def test_events_wait_from_matching_to_their_end(
    app: Deployment, count: Callable[..., None]
) -> None:
    count(10, 3, dropped=2, dead=1)
    count(5, 5, name="erp")

    assert waits(app) == {CRM: Unfinished(4)}


@pytest.mark.parametrize(
    ("given_up", "found"),
    [
        (3, Unfinished(1, 3)),
        (4, Unfinished(0, 4)),
        (6, Unfinished(0, 6)),  # the counts of who matched them come later
        (-2, Unfinished(4, 0)),  # a kill lost that they were given up
    ],
)
def test_what_is_given_up_waits_for_its_blob_only(
    app: Deployment, count: Callable[..., None], given_up: int, found: Unfinished
) -> None:
    count(10, 6, given_up=given_up)

    assert waits(app) == {CRM: found}


def test_what_a_kill_lost_of_events_given_up_is_forgotten_too(
    app: Deployment, count: Callable[..., None], look: Callable[..., None]
) -> None:
    count(10, 10, given_up=-2)
    count(5, 5, name="erp", given_up=3)
    look(2)
    assert waits(app) == {ERP: Unfinished(0, 3)}

    look()
    assert waits(app) == {}
    count(11, 10, given_up=-1)
    assert waits(app) == {CRM: Unfinished(0, 1)}


def test_what_a_kill_lost_and_a_replay_doubled_is_forgotten_after_two_quiet_minutes(
    app: Deployment, count: Callable[..., None], look: Callable[..., None]
) -> None:
    count(10, 7)  # three deliveries were not stored before the process was killed
    count(5, 9, name="erp")  # four were replayed
    look(2)
    assert waits(app) == {CRM: Unfinished(3)}

    look()
    assert waits(app) == {}
    count(11, 7)
    count(6, 9, name="erp")
    assert waits(app) == {CRM: Unfinished(1), ERP: Unfinished(1)}


def test_nothing_is_forgotten_while_a_queue_has_messages(
    app: Deployment, count: Callable[..., None], look: Callable[..., None]
) -> None:
    count(10, 7)
    look(2)
    app.queues.put(Queue.WAITING, "text", timedelta(hours=1))
    look(9)
    app.queues.stored.clear()
    look(2)

    assert waits(app) == {CRM: Unfinished(3)}


def test_counts_that_come_late_are_not_taken_for_lost_ones(
    app: Deployment, count: Callable[..., None], look: Callable[..., None]
) -> None:
    count(10, 7)
    look(2)
    count(10, 9)
    look(2)
    assert waits(app) == {CRM: Unfinished(1)}
    count(10, 10)
    look(3)

    assert waits(app) == {}
    assert read_offsets(app.resources) == {}


def test_an_offset_goes_with_the_totals_that_it_is_of(
    app: Deployment, count: Callable[..., None], look: Callable[..., None]
) -> None:
    count(10, 7)
    look(3)
    app.counts.rows.clear()
    count(5, 5, name="erp")
    look(3)

    assert read_offsets(app.resources) == {}


def test_what_waits_is_logged_for_the_alert(
    app: Deployment, count: Callable[..., None], look: Callable[..., None], logged: Logged
) -> None:
    count(10, 7)
    app.put(Queue.RETRIES, a_message())
    look()

    [line] = logged("events.waiting")
    assert (line["topic"], line["subscription"], line["events"]) == ("orders", "crm", 3)


def test_what_is_given_up_is_no_matter_of_the_alert(
    app: Deployment, count: Callable[..., None], look: Callable[..., None], logged: Logged
) -> None:
    count(10, 7, given_up=2)
    count(2, name="erp", given_up=2)
    app.put(Queue.RETRIES, a_message())
    look()

    [line] = logged("events.waiting")
    assert (line["subscription"], line["events"], line["awaiting_blob"]) == ("crm", 1, 2)


def test_offsets_of_an_earlier_version_are_read(
    app: Deployment, count: Callable[..., None]
) -> None:
    count(10, 7)
    document = {"offsets": [["orders", "crm", 2]]}
    app.resources.put(Table.TOPICS, "state", "waiting", document, None)

    assert waits(app) == {CRM: Unfinished(1)}


def test_a_row_that_can_not_be_read_is_as_none(
    app: Deployment, count: Callable[..., None], look: Callable[..., None]
) -> None:
    count(10, 7)
    look(3)
    app.resources.damage(Table.TOPICS, "state", "waiting", {"offsets": [["orders", 7]]})

    assert waits(app) == {CRM: Unfinished(3)}
    look(3)
    assert waits(app) == {}
