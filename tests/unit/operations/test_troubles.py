"""What is wrong with a subscription: kinds, their order, causes and remedies."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pushgrid.testing.memory import START
from shared.clock import timestamp
from shared.delivery.health.availability import Held, NeedsProbe
from shared.engine.operations.activity import Activity, GivenUp
from shared.engine.operations.troubles import Facts, document, in_order, kinds_of, trouble_of
from shared.subscriptions.subscription import DeadLetterDestination, Pause, SubscriptionKey
from tests.builders import TOPIC_ID, a_subscription

MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)
CRM = SubscriptionKey("orders", "crm")
PAUSE = Pause(START - MINUTE, "ada")
REFUSED = {
    "at": timestamp(START - SECOND),
    "cause": "400 BadRequest",
    "detail": None,
    "answer": {"body": "\n  no such customer\nsecond line"},
}
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
        (facts(state={"has_consented": False}), ["pending"]),
        (facts(subscription=None), ["damaged"]),
    ],
)
def test_what_is_wrong_is_named_the_worst_first(found: Facts, kinds: list[str]) -> None:
    assert list(kinds_of(found, START)) == kinds
    assert bool(trouble_of(found, START)) is bool(kinds)


@pytest.mark.parametrize(
    ("found", "since", "why", "remedy"),
    [
        (
            facts(FAILING),
            START - MINUTE,
            "400 BadRequest at 11:59:59Z: no such customer",
            "pushgrid timeline --topic orders --subscription crm",
        ),
        (
            facts({"failing_since": START, "failed_at": START, "error": "Busy"}),
            START,
            "Busy at 12:00Z",
            "pushgrid timeline --topic orders --subscription crm",
        ),
        (
            facts({"failure": REFUSED}, **HELD),
            START,
            "503 Busy at 12:00:03Z; until 2026-02-09 12:01:00Z: no such customer",
            "pushgrid subscription test crm --topic orders",
        ),
        (
            facts({"failure": {**REFUSED, "answer": {"body": "503 busy"}}}, **PROBED),
            START,
            "503 busy at 12:00:03Z; a probe is due",
            "pushgrid subscription test crm --topic orders",
        ),
        (
            facts(state={"pause": PAUSE}),
            START - MINUTE,
            "paused by ada",
            "pushgrid subscription resume crm --topic orders",
        ),
        (
            facts(SLOW),
            START - MINUTE,
            "500 events delivered in two minutes, at 4.0 s a request",
            "pushgrid subscription update crm --topic orders --batch 100",
        ),
        (
            facts({"dropped": LOST, "failure": REFUSED}),
            START - MINUTE,
            "3 UndeliverableDueToHttpBadRequest; 400 BadRequest at 11:59:59Z: no such customer",
            "pushgrid subscription update crm --topic orders --dead-letter-container NAME",
        ),
        (
            facts({"dropped": LOST}, {"dead_letter": DeadLetterDestination(container="dead")}),
            START - MINUTE,
            "3 UndeliverableDueToHttpBadRequest",
            "pushgrid timeline --topic orders --subscription crm",
        ),
        (
            facts({"dead_lettered": LOST}),
            START - MINUTE,
            "3 UndeliverableDueToHttpBadRequest",
            "pushgrid dead-letters list --topic orders --subscription crm",
        ),
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
        "pending": facts(state={"has_consented": False}),
        "expired": facts(state={"expires_at": START}),
        "held": facts(**HELD),
        "failing": facts(FAILING),
        "damaged": facts(subscription=None),
        "more": facts({**FAILING, "waiting": 9}),
        "paused": facts(state={"pause": PAUSE}),
        "dropping": facts({"dropped": LOST}),
    }
    found = [trouble_of(each, START) for each in known.values()]

    ordered = [document(each) for each in in_order(filter(None, found))]

    assert [each["kind"] for each in ordered] == [
        "damaged", "failing", "failing", "held", "paused", "expired", "pending", "slow",
        "dropping", "deadLettering",
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
