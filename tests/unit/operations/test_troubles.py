"""What the counts of the last hour say of a subscription, and what is wrong with it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from pushgrid.testing.memory import START
from shared.clock import timestamp
from shared.delivery.gate import Held, NeedsProbe
from shared.engine.operations.activity import Activity, GivenUp, activity_of
from shared.engine.operations.troubles import Facts, document, in_order, kinds_of, trouble_of
from shared.metrics import Metric, Series
from shared.subscriptions.destination import StorageQueue
from shared.subscriptions.diagnosis import Reason, diagnosis
from shared.subscriptions.subscription import (
    Batching,
    DeadLetterDestination,
    Pause,
    SigningEnd,
    SubscriptionKey,
)
from tests.builders import TOPIC_ID, a_subscription, sums

MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)
CRM = SubscriptionKey("orders", "crm")
PAUSE = Pause(START - MINUTE, "ada")
REFUSED = {
    "at": timestamp(START - SECOND),
    "cause": "400 BadRequest",
    "detail": None,
    "answer": {"headers": {}, "body": "\n  no such customer\nsecond line"},
}
NO_QUEUE = {**REFUSED, "cause": "404 NotFound", "answer": {"headers": {}, "body": "QueueNotFound"}}
LOST = GivenUp({"UndeliverableDueToHttpBadRequest": 3}, START - MINUTE)
FAILING: dict[str, Any] = {"failing_since": START - MINUTE, "failure": REFUSED}
SLOW: dict[str, Any] = {
    "waiting": 3000,
    "delivered_lately": 500,
    "oldest_seen": MINUTE,
    "seconds": 4.04,
}
HELD: dict[str, Any] = {
    "availability": Held(START + MINUTE, "503 Busy at 12:00:03Z"),
    "held_since": START,
}
PROBED: dict[str, Any] = {
    "availability": NeedsProbe("503 busy at 12:00:03Z"),
    "held_since": START,
}

UNPROVED = diagnosis(Reason.NO_CODE)


def facts(
    activity: dict[str, Any] | None = None, state: dict[str, Any] | None = None, **changes: Any
) -> Facts:
    known = a_subscription(**state or {})
    values: dict[str, Any] = {
        "subscription": known,
        "activity": Activity(**activity or {}),
    } | changes
    return Facts(key=CRM, **values)


@pytest.mark.parametrize(
    ("found", "kinds"),
    [
        (facts(), []),
        (facts({"waiting": 3000}), []),  # nothing that is old was seen: counts alone prove nothing
        (facts({**SLOW, "oldest_seen": 30 * SECOND}), []),
        (facts({**SLOW, "waiting": 500}), []),  # gone within two minutes
        (facts(SLOW), ["slow"]),
        (facts({**SLOW, **FAILING}), ["failing"]),
        (facts({**FAILING, "dropped": LOST}), ["failing", "dropping"]),
        (facts({"dropped": LOST, "dead_lettered": LOST}), ["dropping", "deadLettering"]),
        (facts({**SLOW, **FAILING}, **HELD), ["held"]),
        (facts(availability=NeedsProbe("503 Busy")), ["held"]),
        (facts({**SLOW, **FAILING}, {"pause": PAUSE}), ["paused"]),
        (facts(FAILING, {"pause": PAUSE}, **HELD), ["paused"]),
        (facts({**FAILING, "dropped": LOST}, {"expires_at": START}), ["expired", "dropping"]),
        (facts(state={"expires_at": START + SECOND}), []),
        (facts(pending_consent=UNPROVED), ["awaitingValidation"]),
        (facts(state={"signing_end": SigningEnd(START, "ada")}), ["unsigned"]),
        (facts(FAILING, {"signing_end": SigningEnd(START, "ada")}), ["failing", "unsigned"]),
        (facts(state={"signing_end": SigningEnd(START - 24 * 60 * MINUTE, "ada")}), []),
        (facts(subscription=None), ["damaged"]),
    ],
)
def test_what_is_wrong_is_named_the_worst_first(found: Facts, kinds: list[str]) -> None:
    assert list(kinds_of(found, START)) == kinds
    assert bool(trouble_of(found, START)) is bool(kinds)


EARLIER = START - MINUTE
SAID = "400 BadRequest at 11:59:59Z: no such customer"
GIVEN_UP = "3 UndeliverableDueToHttpBadRequest"
TIMELINE = "pushgrid timeline --topic orders --subscription crm"
TEST = "pushgrid subscription test crm --topic orders"
RESUME = "pushgrid subscription resume crm --topic orders"
UPDATE = "pushgrid subscription update crm --topic orders"
LIST = "pushgrid dead-letters list --topic orders --subscription crm"
UNREAD: dict[str, Any] = {"failing_since": START, "failed_at": START, "error": "Busy"}
NO_CONTAINER = GivenUp({"DeadLetterContainerNotFound": 2}, START)
ECHO = {**REFUSED, "answer": {"headers": {}, "body": "503 busy"}}
TOO_LARGE = "413 PayloadTooLarge at 11:59:59Z: nginx"
REFUSED_LARGE: dict[str, Any] = {
    "dead_lettered": LOST,
    "failure": {
        **REFUSED,
        "cause": "413 PayloadTooLarge",
        "answer": {"headers": {}, "body": "nginx"},
    },
}
REDIRECTED = {
    "at": timestamp(START - SECOND),
    "cause": "308 GenericError",
    "detail": None,
    "answer": {"headers": {"location": "https://new.example/hook"}, "body": ""},
}
RAISE = "raise the limit of request bodies of the endpoint or its proxy"
FUNCTION = "https://app.example/runtime/webhooks/EventGrid?functionName=Order&code=k"
NO_KEY = (
    "The function app got no key, or a wrong one. End the URL with &code=KEY: the app's system key "
    "eventgrid_extension."
)
INBOX = {"destination": StorageQueue(account_id="/a/acct", name="inbox")}


def written_to(container: str, account: str = "") -> dict[str, Any]:
    return {"dead_letter": DeadLetterDestination(container=container, account=account)}


@pytest.mark.parametrize(
    ("found", "since", "why", "remedy"),
    [
        (facts(FAILING), EARLIER, SAID, TIMELINE),
        (
            facts(state={"signing_end": SigningEnd(EARLIER, "ada")}),
            EARLIER,
            "was signed until an update by ada: its secrets are gone",
            f"{UPDATE} --sign",
        ),
        (facts(UNREAD), START, "Busy at 12:00Z", TIMELINE),
        (
            facts({**FAILING, "failure": REDIRECTED}),
            EARLIER,
            "308 GenericError at 11:59:59Z: Location: https://new.example/hook",
            f"{UPDATE} --endpoint URL",
        ),
        (
            facts({"failure": REFUSED}, **HELD),
            START,
            "503 Busy at 12:00:03Z; until 2026-02-09 12:01:00Z: no such customer",
            TEST,
        ),
        (facts({"failure": ECHO}, **PROBED), START, "503 busy at 12:00:03Z; a probe is due", TEST),
        (facts(state={"pause": PAUSE}), EARLIER, "paused by ada", RESUME),
        (
            facts(SLOW),
            EARLIER,
            "500 events delivered in two minutes, at 4.0 s a request",
            f"{UPDATE} --batch 100",
        ),
        (
            facts({"dropped": LOST, "failure": REFUSED}),
            EARLIER,
            f"{GIVEN_UP}; {SAID}",
            f"{UPDATE} --dead-letter-container NAME",
        ),
        (
            facts({"dropped": NO_CONTAINER}, written_to("nosuch", "other")),
            START,
            "2 DeadLetterContainerNotFound",
            "create the container 'nosuch' in the storage account 'other'",
        ),
        (facts({"dropped": LOST}, written_to("dead")), EARLIER, GIVEN_UP, TIMELINE),
        (
            facts({"failing_since": START, "failure": NO_QUEUE}, INBOX),
            START,
            "404 NotFound at 11:59:59Z: QueueNotFound",
            "create the queue 'inbox' in the storage account 'acct'",
        ),
        (facts({"dead_lettered": LOST}), EARLIER, GIVEN_UP, LIST),
        (facts(pending_consent=UNPROVED), None, UNPROVED.why, UNPROVED.remedy),
        (facts(REFUSED_LARGE), EARLIER, f"{GIVEN_UP}; {TOO_LARGE}", RAISE),
        (
            facts(REFUSED_LARGE, {"batching": Batching(max_events=100)}),
            EARLIER,
            f"{GIVEN_UP}; {TOO_LARGE}",
            f"{RAISE}, or send smaller batches: {UPDATE} --batch-kilobytes 32",
        ),
        (
            facts(
                {"dead_lettered": LOST, "failure": {**REFUSED, "status": 401}},
                {"endpoint_url": FUNCTION},
            ),
            EARLIER,
            f"{GIVEN_UP}; {SAID}",
            NO_KEY,
        ),
        (facts(REFUSED_LARGE, INBOX), EARLIER, f"{GIVEN_UP}; {TOO_LARGE}", LIST),
    ],
)
def test_it_says_since_when_why_and_what_to_do(
    found: Facts, since: Any, why: str, remedy: str
) -> None:
    trouble = trouble_of(found, START)

    assert trouble
    assert (trouble.since, trouble.why, trouble.remedy) == (since, why, remedy)


def test_the_order_is_that_of_harm_then_of_what_waits() -> None:
    known = {
        "deadLettering": facts({"dead_lettered": LOST}),
        "slow": facts(SLOW),
        "awaitingValidation": facts(pending_consent=UNPROVED),
        "expired": facts(state={"expires_at": START}),
        "held": facts(**HELD),
        "failing": facts(FAILING),
        "damaged": facts(subscription=None),
        "more": facts({**FAILING, "waiting": 9}),
        "paused": facts(state={"pause": PAUSE}),
        "unsigned": facts(state={"signing_end": SigningEnd(START, "ada")}),
        "dropping": facts({"dropped": LOST}),
        "unknownAccount": facts(
            state={"dead_letter": DeadLetterDestination(container="dead", account="archive")},
            accounts=("mine",),
        ),
    }
    found = [trouble_of(each, START) for each in known.values()]

    ordered = [document(each) for each in in_order(filter(None, found))]

    assert [each["kind"] for each in ordered] == [
        "damaged", "failing", "failing", "held", "paused", "expired", "awaitingValidation",
        "slow", "unknownAccount", "dropping", "deadLettering", "unsigned",
    ]  # fmt: skip
    assert [each["waiting"] for each in ordered if each["kind"] == "failing"] == [9, 0]


def test_the_remedy_leads_to_the_subscription_of_a_system_topic() -> None:
    """Below the account's name, which its key has, there is none of that name."""
    of_system_topic = (
        f"{TOPIC_ID.rpartition('/topics/')[0]}/systemTopics/blobs/eventSubscriptions/crm"
    )

    trouble = trouble_of(facts(state={"arm_id": of_system_topic, "pause": PAUSE}), START)

    assert trouble
    assert trouble.remedy == "pushgrid subscription resume crm --topic systemTopics/blobs"


DONE, AGE = Series(Metric.DELIVERY_SUCCESS), Series(Metric.EVENT_AGE)
MATCHED = Series(Metric.MATCHED)
GONE = Series(Metric.DROPPED, (("DropReason", "TimeToLiveExceeded"),))


def failed(by: str = "Busy") -> Series:
    return Series(Metric.ATTEMPT_FAIL, (("Error", by), ("ErrorType", "ServerError")))


def judged(
    *minutes: tuple[int, dict[Series, float]], waiting: int = 7, awaiting_blob: int = 0
) -> Activity:
    """Judge minutes, each so many ago."""
    counts = [(START - ago * MINUTE, sums(each)) for ago, each in minutes]
    return activity_of(Activity(waiting=waiting, awaiting_blob=awaiting_blob), counts, START)


@pytest.mark.parametrize(
    ("minutes", "since"),
    [
        ([], None),
        ([(0, {DONE: 5})], None),
        ([(0, {failed(): 5})], 0),
        ([(5, {DONE: 100, failed(): 1}), (0, {DONE: 1, failed(): 1})], None),  # one event fails
        ([(9, {failed(): 1}), (5, {DONE: 1}), (0, {failed(): 1})], None),  # alternately
        ([(30, {DONE: 9}), (20, {failed(): 3}), (10, {failed(): 3}), (0, {failed(): 3})], 20),
        ([(30, {failed(): 9}), (1, {DONE: 50}), (0, {DONE: 50})], None),  # mended
        ([(1, {failed(): 90}), (0, {DONE: 3})], 1),  # … a moment ago
        ([(40, {failed(): 1})], 40),  # nothing was tried since
    ],
)
def test_an_endpoint_fails_if_most_of_its_latest_attempts_do(
    minutes: list[tuple[int, dict[Series, float]]], since: int | None
) -> None:
    found = judged(*minutes).failing_since

    assert found == (None if since is None else START - since * MINUTE)


@pytest.mark.parametrize(
    ("minutes", "waiting", "since"),
    [
        ([(0, {MATCHED: 1, failed(): 2, DONE: 1})], 0, None),
        ([(0, {MATCHED: 1, failed(): 2, DONE: 1})], 1, START),
        ([(0, {MATCHED: 1, failed(): 2, DONE: 1, GONE: 1})], 0, START),
        # The count of what waits may be too low.
        ([(0, {MATCHED: 2, failed(): 2, DONE: 1})], 0, START),
        ([(0, {failed(): 2, DONE: 1})], 0, START),
        ([(9, {MATCHED: 5, DONE: 5}), (1, {failed(): 9}), (0, {failed(): 9})], 0, START - MINUTE),
    ],
)
def test_an_endpoint_that_took_all_in_the_end_does_not_fail(
    minutes: list[tuple[int, dict[Series, float]]], waiting: int, since: datetime | None
) -> None:
    assert judged(*minutes, waiting=waiting).failing_since == since
    if not waiting:
        assert judged(*minutes, waiting=0, awaiting_blob=1).failing_since == (since or START)


def test_the_oldest_event_is_that_of_the_last_ten_minutes() -> None:
    assert judged((10, {AGE: 9e6})).oldest_seen is None
    assert judged((9, {AGE: 6e4}), (2, {AGE: 3e4})).oldest_seen == MINUTE


def test_what_was_delivered_lately_is_that_of_two_whole_minutes_and_this_one() -> None:
    found = judged((3, {DONE: 1}), (2, {DONE: 2}), (1, {DONE: 4}), (0, {DONE: 8}))

    assert found.delivered_lately == 14


def test_events_given_up_are_named_by_reason_for_a_quarter_of_an_hour() -> None:
    more = Series(Metric.DROPPED, (("DropReason", "MaxDeliveryAttemptsExceeded"),))

    found = judged((15, {GONE: 9}), (14, {GONE: 2}), (1, {GONE: 3, more: 1}))

    reasons = {"TimeToLiveExceeded": 5, "MaxDeliveryAttemptsExceeded": 1}
    assert found.dropped == GivenUp(reasons, START - 14 * MINUTE)
    assert found.dead_lettered is None


def test_rows_of_several_processes_are_one_minute() -> None:
    found = judged((1, {failed("TimedOut"): 2}), (1, {failed(): 1, DONE: 1}), (0, {failed(): 1}))

    assert (found.failing_since, found.attempts, found.error) == (START - MINUTE, 5, "TimedOut")
