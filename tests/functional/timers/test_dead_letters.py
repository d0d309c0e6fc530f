"""Writing dead letters: one blob per subscription and run; messages go only after it is stored."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from pushgrid.testing.memory import START
from shared.clock import Deadline
from shared.deadletter.blob_summary import BlobSummary
from shared.delivery.policy import EndReason
from shared.engine.ports import Queue
from shared.errors import StorageUnavailable
from shared.events.notices import WrittenBlob
from shared.metrics import Metric
from shared.subscriptions.subscription import DeadLetterDestination
from tests.builders import CRM, DEAD, ORIGIN, a_delivery, a_message, a_note, text
from tests.functional.deployment import MINUTE, SECOND, Deployment, Logged
from tests.functional.timers.dead_letters import HOUR, dead, run, written

FIRST = "Shop.OrderPlaced /orders/17"
OTHER = DeadLetterDestination(container="other")
ARCHIVE = DeadLetterDestination(container="dead", account="archive1")
SLOW = DeadLetterDestination(container="dead", account="slow")


def test_a_run_writes_one_blob_for_each_subscription(app: Deployment) -> None:
    app.put(Queue.DEADLETTERS, dead(0, 1), dead(2, subscription="billing"), dead(3))
    app.put(Queue.DEADLETTERS, dead(4, note=a_note(destination=OTHER)), dead(5, subscription="CRM"))

    run(app)

    assert written(app) == [
        ("dead/BILLING/2026/2/9/12", ["e-2"]),
        ("dead/CRM/2026/2/9/12", ["e-0", "e-1", "e-3", "e-5"]),
        ("other/CRM/2026/2/9/12", ["e-4"]),
    ]
    assert app.all_stored() == {}


def test_a_blob_tells_its_topic_and_its_reasons(app: Deployment) -> None:
    late = a_note(reason=EndReason.TIME_TO_LIVE)
    app.put(Queue.DEADLETTERS, dead(0, 1), dead(2, note=late))
    app.put(Queue.DEADLETTERS, dead(3, topic="shop.orders", subscription="new", note=late))
    elsewhere = replace(a_note(), topic_id="/subscriptions/s/elsewhere")
    app.put(Queue.DEADLETTERS, dead(4, subscription="moved"))
    app.put(Queue.DEADLETTERS, dead(5, subscription="moved", note=elsewhere))

    run(app)

    assert {
        path.split("/20")[0]: each for (_, path), each in app.dead_letters.summaries.items()
    } == {
        "CRM": BlobSummary(
            a_note().topic_id, {"MaxDeliveryAttemptsExceeded": 2, "TimeToLiveExceeded": 1}, FIRST
        ),
        "shop/orders/new": BlobSummary(a_note().topic_id, {"Time to live was exceeded.": 1}, FIRST),
        "MOVED": BlobSummary("", {"MaxDeliveryAttemptsExceeded": 2}, FIRST),
    }


def test_more_than_a_thousand_events_take_more_blobs(app: Deployment) -> None:
    for start in range(0, 1050, 50):
        app.put(Queue.DEADLETTERS, dead(*range(start, start + 50)))

    run(app)

    assert sorted(len(ids) for _, ids in written(app)) == [50, 1000]


@pytest.mark.parametrize("also", [[2], []], ids=["with another", "alone"])
def test_parked_events_are_written_with_their_payload(
    app: Deployment, logged: Logged, also: list[int]
) -> None:
    """Those whose payload is gone are dropped, and leave no empty blob."""
    name = app.payloads.write("p", START + HOUR, [text(id="other"), text(id="parked"), ""])
    origin = ORIGIN._replace(payload=name, first_line=1)
    parked = [a_delivery(number, text=None, origin=origin) for number in (also and [0]) + [1]]
    rest = [a_delivery(number) for number in also]
    app.put(Queue.DEADLETTERS, a_message([*parked, *rest], dead_letter=a_note()))

    run(app)

    assert [ids for _, ids in written(app)] == ([["parked", "e-2"]] if also else [])
    (line,) = logged("delivery.dropped")
    assert (line["reason"], line["count"]) == ("PayloadMissing", 1)
    assert app.all_stored() == {}


def test_a_missing_container_drops_at_once(app: Deployment, logged: Logged) -> None:
    """Contract §3.3, 8: "dropped if not found"."""
    app.dead_letters.missing.add("dead")
    app.put(Queue.DEADLETTERS, dead(0, 1), dead(2, note=a_note(destination=OTHER)))

    run(app)

    (line,) = logged("delivery.dropped")
    assert (line["reason"], line["count"]) == ("DeadLetterContainerNotFound", 2)
    assert (len(app.dead_letters.blobs), app.all_stored()) == (1, {})
    assert app.metrics.of(Metric.DROPPED) == {(EndReason.CONTAINER_NOT_FOUND, *CRM): 2}
    assert app.metrics.of(Metric.AWAITING_BLOB) == {CRM: -3}
    assert list(app.metrics.of(Metric.DEAD_LETTERED).values()) == [1]


@pytest.mark.parametrize(("store", "verb"), [("dead_letters", "write"), ("payloads", "read")])
def test_what_fails_is_kept_and_tried_again(app: Deployment, store: str, verb: str) -> None:
    name = app.payloads.write("p", START + HOUR, [text()])
    parked = a_delivery(text=None, origin=ORIGIN._replace(payload=name))
    app.put(Queue.DEADLETTERS, a_message([parked], dead_letter=a_note()))
    getattr(app, store).fail_next(verb)

    run(app)
    after_failure = app.queues.waits(Queue.DEADLETTERS)
    app.clock.advance(MINUTE)
    run(app)

    assert after_failure == [MINUTE]
    assert (len(app.dead_letters.blobs), app.all_stored()) == (1, {})


@pytest.mark.parametrize(
    ("age", "left"), [(4 * HOUR - SECOND, 1), (4 * HOUR, 0)], ids=["just before", "4 h"]
)
@pytest.mark.parametrize("destination", [DEAD, ARCHIVE], ids=["a fault", "an account is away"])
def test_what_has_failed_for_four_hours_is_dropped_and_counted(
    app: Deployment,
    logged: Logged,
    destination: DeadLetterDestination,
    age: timedelta,
    left: int,
) -> None:
    app.put(Queue.DEADLETTERS, dead(0, 1, note=a_note(destination=destination)))
    app.clock.advance(age)
    app.dead_letters.away.add("archive1")
    app.dead_letters.fail_next("write")

    run(app)

    assert len(app.on(Queue.DEADLETTERS)) == left
    assert app.metrics.of(Metric.AWAITING_BLOB) == ({} if left else {CRM: -2})
    told = [
        (each["reason"], each["count"], each.get("account")) for each in logged("delivery.dropped")
    ]
    account = destination.account or None
    assert told == [("DeadLetterDestinationUnavailable", 2, account)] * (1 - left)


def test_a_jump_ends_no_dead_letter_whose_destination_fails_now(
    app: Deployment, logged: Logged
) -> None:
    app.put(Queue.DEADLETTERS, dead(0))
    app.clock.jump(30 * HOUR)
    for _ in range(2):
        app.dead_letters.fail_next("write")
        run(app)
        app.clock.advance(MINUTE)
    assert logged("delivery.dropped") == []

    app.clock.advance(8 * MINUTE)
    app.dead_letters.fail_next("write")
    run(app)

    assert len(logged("delivery.dropped")) == 1


def test_one_destination_that_fails_leaves_others_alone(app: Deployment) -> None:
    app.put(Queue.DEADLETTERS, dead(0), dead(1, subscription="billing"))
    app.dead_letters.fail_next("write")

    run(app)

    assert [ids for _, ids in written(app)] == [["e-1"]]
    assert app.waiting(Queue.DEADLETTERS) == [(MINUTE, [0])]


def test_dead_letters_go_to_the_account_that_their_note_names(
    app: Deployment, logged: Logged
) -> None:
    app.put(Queue.DEADLETTERS, dead(0), dead(1, note=a_note(destination=ARCHIVE)))

    run(app)

    assert sorted(app.dead_letters.accounts.values()) == ["", "archive1"]
    assert [line.get("account") for line in logged("deadletter_batch")] == [None, "archive1"]
    assert app.all_stored() == {}


def test_accounts_that_do_not_answer_are_asked_last_and_once_a_run(
    app: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each try can take the time of a whole run: others would never get theirs."""
    for number, destination in enumerate([SLOW, ARCHIVE, SLOW, ARCHIVE]):
        note = a_note(destination=destination)
        app.put(Queue.DEADLETTERS, dead(number, note=note, subscription=f"s-{number}"))
    app.put(Queue.DEADLETTERS, dead(4))
    app.dead_letters.away |= {"slow", "archive1"}
    asked: list[str] = []
    write = app.dead_letters.write

    def slow_write(destination: DeadLetterDestination, *blob: Any) -> WrittenBlob | None:
        asked.append(destination.account)
        if destination.account in app.dead_letters.away:
            app.clock.advance(16 * SECOND)
        return write(destination, *blob)

    monkeypatch.setattr(app.dead_letters, "write", slow_write)

    run(app)
    first, asked[:] = asked[:], []
    app.clock.advance(10 * MINUTE)
    app.put(Queue.DEADLETTERS, dead(5))
    app.dead_letters.away.clear()
    run(app)

    assert first == ["slow", "archive1", ""]
    assert asked == ["", "slow", "archive1", "slow", "archive1"]
    assert app.all_stored() == {}


def test_an_event_without_a_dead_letter_never_harms_the_others(app: Deployment) -> None:
    """It used to raise at every run, and the timer wrote nothing more."""
    broken = a_delivery(1, text='["damaged"]')
    app.put(Queue.DEADLETTERS, a_message([a_delivery(0), broken], dead_letter=a_note()), dead(2))

    run(app)

    assert [ids for _, ids in written(app)] == [["e-0", "e-2"]]
    (record,) = map(json.loads, app.dead_letters.poison.values())
    assert record["events"] == [["damaged"]]
    assert record["reason"].startswith("the dead letter can't be built")
    assert app.all_stored() == {}


def test_deliveries_among_dead_letters_become_a_record(app: Deployment) -> None:
    app.put(Queue.DEADLETTERS, a_message(), dead(1))

    run(app)

    assert [ids for _, ids in written(app)] == [["e-1"]]
    assert (len(app.dead_letters.poison), app.all_stored()) == (1, {})


def test_a_failing_delete_drops_nothing_however_old(app: Deployment, logged: Logged) -> None:
    """It is a fault of queues, not of the destination."""
    app.put(Queue.DEADLETTERS, dead(0))
    app.clock.advance(5 * HOUR)
    app.queues.fail_next("delete")

    with pytest.raises(StorageUnavailable):
        run(app)
    app.clock.advance(10 * MINUTE)
    run(app)

    assert [ids for _, ids in written(app)] == [["e-0"]]
    assert (app.all_stored(), logged("delivery.dropped")) == ({}, [])


@pytest.mark.parametrize("age", [timedelta(), 5 * HOUR], ids=["new", "old"])
@pytest.mark.parametrize(
    ("run_for", "first"),
    [(MINUTE, ["CRM"]), (2 * MINUTE, ["BILLING", "CRM"])],
    ids=["the run's deadline", "a minute of a destination"],
)
def test_what_a_slow_destination_leaves_is_kept_however_old_it_is(
    app: Deployment,
    logged: Logged,
    monkeypatch: pytest.MonkeyPatch,
    age: timedelta,
    run_for: timedelta,
    first: list[str],
) -> None:
    """It was not even tried: nothing is dropped, and no destination holds up the others."""
    for start in range(0, 2000, 50):
        app.put(Queue.DEADLETTERS, dead(*range(start, start + 50)))
    app.put(Queue.DEADLETTERS, dead(7, subscription="billing"))
    app.clock.advance(age)
    write = app.dead_letters.write

    def slow(*args: Any) -> WrittenBlob | None:
        app.clock.advance(61 * SECOND)
        return write(*args)

    monkeypatch.setattr(app.dead_letters, "write", slow)

    app.write_dead_letters.run(Deadline(run_for, app.clock.monotonic))

    assert [path.split("/")[1] for path, _ in written(app)] == first
    assert len(app.on(Queue.DEADLETTERS)) == 20 + (2 - len(first))
    assert "BILLING" in first or set(app.queues.waits(Queue.DEADLETTERS)) == {MINUTE}
    assert logged("delivery.dropped") == []
