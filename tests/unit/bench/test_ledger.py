"""The soak's ledger, judgement by judgement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from bench.soak.ledger import Ledger, LedgerSums, Occurrence, content, events_in

QUIET: dict[str, Any] = {"runs": 1, "bound": 0, "is_queue_empty": True}


def event(name: str, **data: object) -> dict[str, Any]:
    return {"id": name, "subject": "/a", "eventType": "T", "data": data}


def letter(name: str, reason: str = "UndeliverableDueToHttpBadRequest") -> dict[str, Any]:
    added = {"topic": "/t", "metadataVersion": "1", "deadLetterReason": reason, "publishTime": "x"}
    return event(name) | added


def published(*names: str, to: Sequence[str] = ("crm",), **limits: Any) -> Ledger:
    """Return the ledger of one request, answered 200, with events for the subscriptions *to*."""
    ledger = Ledger(**limits)
    for name in names:
        ledger.send(event(name), to)
    ledger.accept(names, at=10.0)
    return ledger


def faults(row: LedgerSums) -> dict[str, int]:
    """Return the columns that must be 0 and are not."""
    judged = LedgerSums._fields[LedgerSums._fields.index("waiting") :]
    found = {name: getattr(row, name) for name in judged if getattr(row, name)}
    assert row.faults == sum(found.values())
    return found


@pytest.mark.parametrize(
    ("is_queue_empty", "fault"),
    [pytest.param(True, "lost", id="none"), pytest.param(False, "waiting", id="one")],
)
def test_what_has_no_end_is_lost_if_no_message_is_left(*, is_queue_empty: bool, fault: str):
    ledger = published("a", "b", "c")
    ledger.receive("crm", [event("a")], 200)
    ledger.receive("crm", [event("b")], 400)
    ledger.bury("crm", letter("b"))
    ledger.receive("crm", [event("c")], 500)

    row = ledger.row("x", runs=1, bound=128, is_queue_empty=is_queue_empty)

    assert (row.accepted, row.delivered, row.dead, row.bound) == (3, 1, 1, 128)
    assert faults(row) == {fault: 1}
    assert ledger.open == {("crm", "c")}


@pytest.mark.parametrize(
    ("reason", "answers", "now", "is_wrong"),
    [
        ("UndeliverableDueToHttpBadRequest", [503, 400], 0.0, False),
        ("UndeliverableDueToHttpBadRequest", [503, 503], 0.0, True),
        ("MaxDeliveryAttemptsExceeded", [503, 503], 0.0, False),
        ("MaxDeliveryAttemptsExceeded", [503], 0.0, True),
        ("TimeToLiveExceeded", [], 60.0, False),
        ("TimeToLiveExceeded", [], 59.0, True),
        ("UndeliverableDueToHttpNotFound", [400, 400], 60.0, True),
    ],
)
def test_a_dead_letter_needs_a_rule_that_allows_it(
    reason: str, answers: list[int], now: float, *, is_wrong: bool
):
    ledger = published("a", attempts={"crm": 2}, time_to_live=60.0)
    for status in answers:
        ledger.receive("crm", [event("a")], status)
    ledger.bury("crm", letter("a", reason), at=now)

    assert faults(ledger.row("x", **QUIET)) == ({"wrong_ends": 1} if is_wrong else {})


@pytest.mark.parametrize(("attempts", "is_wrong"), [(1, True), (2, False)])
def test_attempts_count_that_an_endpoint_out_of_reach_never_saw(attempts: int, *, is_wrong: bool):
    ledger = published("a", attempts={"crm": 2})
    ledger.receive("crm", [event("a")], 503)
    ledger.cut_off()
    found = letter("a", "MaxDeliveryAttemptsExceeded") | {"deliveryAttempts": attempts}
    ledger.bury("crm", found)

    assert faults(ledger.row("x", **QUIET)) == ({"wrong_ends": 1} if is_wrong else {})


def test_a_subscription_that_chooses_no_limit_has_thirty_attempts():
    ledger = published("a")
    for _ in range(29):
        ledger.receive("crm", [event("a")], 503)
    ledger.bury("crm", letter("a", "MaxDeliveryAttemptsExceeded"))

    assert faults(ledger.row("x", **QUIET)) == {"wrong_ends": 1}


@pytest.mark.parametrize("is_dead", [False, True])
def test_an_event_arrives_and_is_buried_as_it_was_published(*, is_dead: bool):
    ledger = published("a")
    ledger.receive("crm", [event("a", total=1) if not is_dead else event("a")], 400)
    ledger.bury("crm", letter("a") | ({"subject": "/b"} if is_dead else {}))

    assert faults(ledger.row("x", **QUIET)) == {"changed": 1}


def test_decimals_are_compared_as_they_are_written():
    (one,), (other,) = events_in(b'[{"id":"a","data":1.10}]'), events_in(b'{"id":"a","data":1.1}')

    assert content(one) != content(other)


@pytest.mark.parametrize("name", ["a", "never published"])
def test_what_a_filter_leaves_out_is_a_stray(name: str):
    ledger = published("a", to=())
    ledger.receive("crm", [event(name)], 200)

    assert faults(ledger.row("x", **QUIET)) == {"strays": 1}


def test_what_is_published_in_a_pause_waits_until_its_end():
    ledger = published("before")
    ledger.pause("crm")
    ledger.send(event("a"), ["crm", "log"])
    ledger.send(event("b"), ["crm"])
    assert not ledger.keeps_back("crm")
    ledger.accept(["a", "b"])
    assert ledger.keeps_back("crm")
    ledger.receive("crm", [event("before")], 200)
    ledger.receive("log", [event("a")], 200)
    ledger.receive("crm", [event("b")], 503)
    ledger.resume("crm")
    ledger.receive("crm", [event("a")], 200)
    ledger.receive("crm", [event("b")], 200)

    assert faults(ledger.row("x", **QUIET)) == {"while_paused": 1}
    assert ledger.seen[Occurrence.PAUSES] == 1


def test_a_replay_brings_each_dead_letter_exactly_once():
    ledger = published("a", to=["crm"])
    ledger.receive("crm", [event("a")], 400)
    ledger.bury("crm", letter("a"))
    ledger.replay("again", [letter("a"), letter("older"), letter("oldest")])
    ledger.receive("again", [event("a"), event("older")], 200)
    ledger.receive("again", [event("older"), event("b")], 200)

    row = ledger.row("x", **QUIET)

    assert faults(row) == {"lost": 1, "strays": 1, "beyond": 1}
    assert ledger.seen[Occurrence.REPLAYED] == 3


@pytest.mark.parametrize(("bound", "beyond"), [(128, 0), (64, 36)])
def test_what_is_repeated_beyond_the_bound_is_counted(bound: int, beyond: int):
    names = [str(number) for number in range(100)]
    ledger = published(*names)
    for _ in range(2):
        ledger.receive("crm", [event(name) for name in names], 200)

    row = ledger.row("x", runs=1, bound=bound, is_queue_empty=True)

    assert (row.delivered, row.repeated, row.bound) == (100, 100, bound)
    assert faults(row) == ({"beyond": beyond} if beyond else {})


def test_every_end_beyond_the_first_is_a_repetition():
    ledger = published()
    ledger.send(event("a"), ["crm"])
    ledger.receive("crm", [event("a")], 200)  # before the publisher's answer has arrived
    ledger.accept(["a"])
    ledger.receive("crm", [event("a")], 400)
    ledger.bury("crm", letter("a"))

    row = ledger.row("x", **QUIET)

    assert (row.delivered, row.dead, row.repeated, row.beyond) == (1, 0, 1, 1)


def test_what_was_not_answered_is_no_promise():
    ledger = Ledger()
    ledger.send(event("a"), ["crm"])
    ledger.receive("crm", [event("a"), event("a")], 200)

    assert ledger.row("x", **QUIET) == LedgerSums("x", runs=1)


def test_only_what_storage_had_not_saved_may_be_lost():
    ledger = published("a", "b")  # at 10
    ledger.send(event("c"), ["crm"])
    ledger.accept(["c"], at=20.0)
    ledger.receive("crm", [event("b")], 200)
    ledger.excuse(since=15.0)

    row = ledger.row("x", **QUIET)

    assert (row.unsaved, faults(row)) == (1, {"lost": 1})


def test_what_is_no_event_only_has_to_end():
    ledger = Ledger()
    ledger.promise([("poison", "x"), ("poison", "y")])
    ledger.end([("poison", "x")])

    assert faults(ledger.row("x", **QUIET)) == {"lost": 1}


def test_the_ledger_counts_what_a_soak_must_have():
    ledger = published(*map(str, range(13)), to=["a", "b", "c", "d", "e"])
    ledger.send(event("big", text="x" * 70_000), ["a"])
    ledger.accept(["big"])
    ledger.send(event("one message"), map(str, range(64)))
    ledger.accept(["one message"])
    for size in (10, 11):
        ledger.receive("a", [event(str(number)) for number in range(size)], 200)
    ledger.saw(Occurrence.FILTERED, 3)

    assert {each: count for each, count in ledger.seen.items() if count} == {
        Occurrence.COMMITS: 1,
        Occurrence.BIG: 1,
        Occurrence.BATCHES: 1,
        Occurrence.FILTERED: 3,
    }
