"""The attempts of a subscription's events, and its state, as the management API answers them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from cli.timeline import state_text
from pushgrid.testing.memory import START, answered
from shared.delivery.outcome import Outcome
from shared.delivery.policy import EndState
from shared.engine.ports import Table
from shared.metrics import Metric, Series
from tests.builders import a_minute, a_record, an_outcome
from tests.functional.manage.arm_api import CRM, URL, ArmApi, hook
from tests.unit.arm.documents import dead_letter

MINUTE = timedelta(minutes=1)
NOW = START + MINUTE
ATTEMPTS = f"{CRM}/attempts"


@pytest.fixture
def crm(orders: ArmApi) -> ArmApi:
    """A topic with the subscription crm, a minute after START."""
    orders.json("PUT", CRM, hook(), status=201)
    orders.clock.advance(NOW - orders.clock.now())
    return orders


def count(arm: ArmApi, name: str, counts: Mapping[Metric, int], at: timedelta = MINUTE / 2) -> None:
    values = {Series(metric): value for metric, value in counts.items()}
    arm.counts.write([a_minute(values, start=START + at, subscription=name)])


def found(arm: ArmApi, query: str = "") -> Any:
    return arm.json("GET", f"{ATTEMPTS}?{query}" if query else ATTEMPTS)


def printed(arm: ArmApi) -> str:
    """Return the state as an operator reads it, of the last hour."""
    since = NOW - 60 * MINUTE
    state = found(arm, f"since={since.strftime('%Y-%m-%dT%H:%M:%SZ')}")["state"]
    return state_text(state, since, NOW)


def test_events_with_attempts_come_with_the_oldest_first(crm: ArmApi) -> None:
    crm.attempts.write(
        [
            a_record(
                system_id=f"s-{age}",
                event_id=f"e-{age}",
                published_at=START - timedelta(hours=age),
                at=START - timedelta(hours=age),
            )
            for age in (0, 1, 2, 24)
        ]
    )

    def events(query: str = "") -> list[str]:
        return [each["eventId"] for each in found(crm, query)["value"]]

    assert events() == ["e-24", "e-2", "e-1", "e-0"]
    assert events("$top=2") == ["e-1", "e-0"]
    assert events("event=e-24") == ["e-24"]
    assert events("since=2026-02-09T10:30:00Z") == ["e-2", "e-1", "e-0"]
    assert found(crm)["value"][0]["attempts"][0]["outcome"] == "Busy"


@pytest.mark.parametrize(
    ("target", "status", "words"),
    [
        (ATTEMPTS.replace("orders", "orderz"), 404, "no topic 'orderz'; did you mean 'orders'?"),
        (ATTEMPTS.replace("orders", "xyz"), 404, "There is no topic 'xyz'."),
        (ATTEMPTS.replace("crm", "crn"), 404, "'crn' of topic 'orders'; did you mean 'crm'?"),
        (f"{ATTEMPTS}?since=yesterday", 400, "'yesterday' is not a time"),
        (f"{ATTEMPTS}?$top=0", 400, "$top must be a whole number between 1 and 1000"),
        (f"{ATTEMPTS}?$top=1001", 400, "$top must be a whole number between 1 and 1000"),
    ],
)
def test_what_can_not_be_meant_is_refused(
    crm: ArmApi, target: str, status: int, words: str
) -> None:
    assert words in crm.error("GET", target, status=status)["message"]


def test_attempts_of_a_deleted_subscription_are_kept(crm: ArmApi) -> None:
    crm.attempts.write([a_record()])
    crm.resources.delete(Table.EVENT_SUBSCRIPTIONS, "orders", "crm")

    answered = found(crm)

    assert len(answered["value"]) == 1
    assert answered["state"] is None
    assert state_text(None, START, NOW) == "The event subscription no longer exists."


def test_an_expired_subscription_is_said_to_be_expired(crm: ArmApi) -> None:
    """Not that its filters matched none."""
    crm.json("PUT", CRM, hook(expirationTimeUtc="2026-02-09T12:02:00Z"), status=201)
    crm.clock.advance(2 * MINUTE)
    count(crm, "", {Metric.PUBLISH_SUCCESS: 3})

    shown = printed(crm)

    assert shown.startswith("Expired at 2026-02-09 12:02:00: it gets no more events")
    assert "Its filters matched none" not in shown


def test_a_hold_is_shown_while_it_lasts_and_until_its_probe(crm: ArmApi) -> None:
    crm.hold(minutes=3)

    why = "probation for NotFound: 5 min"
    assert found(crm)["state"]["held"] == {"until": "2026-02-09T12:03:00.0000000Z", "why": why}
    shown = "Held: the endpoint is sent nothing for another 0:02:00 (probation for"
    assert printed(crm).startswith(shown)

    crm.clock.advance(2 * MINUTE)

    assert found(crm)["state"]["held"] == {"until": None, "why": f"{why}; a probe is due"}
    assert "one event is sent first" in printed(crm)


def test_published_matched_and_ended_events_are_counted(crm: ArmApi) -> None:
    assert "0 events published" in printed(crm)
    count(crm, "", {Metric.PUBLISH_SUCCESS: 5, Metric.UNMATCHED: 2})
    count(crm, "", {Metric.PUBLISH_SUCCESS: 7}, at=-90 * MINUTE)  # before what is asked for

    text = printed(crm)

    assert "5 events published, of which 0 matched this subscription and 2 matched none" in text
    assert text.endswith("Its filters matched none of them.")
    ends = {Metric.DELIVERY_SUCCESS: 1, Metric.DEAD_LETTERED: 2, Metric.DROPPED: 1}
    count(crm, "crm", {Metric.MATCHED: 4} | ends)
    text = printed(crm)
    assert "4 matched this subscription" in text
    assert "1 delivered, 2 dead-lettered, 1 dropped" in text
    assert "matched none of them" not in text
    assert found(crm)["state"]["counts"]["MatchedEventCount"] == 4


def test_the_place_of_dead_letters_is_shown(crm: ArmApi) -> None:
    assert found(crm)["state"]["deadLetter"] is None
    assert "Dead letters" not in printed(crm)

    crm.json("PATCH", CRM, {"deadLetterDestination": dead_letter()}, status=201)

    assert found(crm)["state"]["deadLetter"] == {"account": "acct", "container": "dead"}
    assert "Dead letters: container 'dead' of storage account 'acct'." in printed(crm)


def test_an_endpoint_without_consent_is_sent_nothing(orders: ArmApi) -> None:
    orders.pusher.script(URL, answered(200))
    orders.json("PUT", CRM, hook(), status=201)

    assert printed(orders).startswith("Not delivering: The endpoint answered 200 without")


def test_the_latest_failed_attempts_come_first(crm: ArmApi) -> None:
    """By the time of the attempt, not of the event; successes are left out."""
    hour = 60 * MINUTE
    old = {"system_id": "s-1", "event_id": "e-1", "published_at": START - 10 * hour}
    crm.attempts.write(
        [
            a_record(**old, number=1, at=START - 10 * hour),
            a_record(**old, number=9, at=START + MINUTE / 2),
            a_record(system_id="s-2", event_id="e-2", at=START),
            a_record(
                system_id="s-2",
                event_id="e-2",
                number=2,
                at=NOW,
                outcome=an_outcome(outcome=Outcome.DELIVERED, status=200),
                state=EndState.DELIVERED,
            ),
            a_record(subscription="other", system_id="s-3"),
        ]
    )

    def failures(query: str = "") -> list[tuple[str, int]]:
        found = crm.json("GET", f"{CRM}/failures{query}")
        return [(each["eventId"], each["number"]) for each in found["value"]]

    assert failures() == [("e-1", 9), ("e-2", 1)]
    assert failures("?$top=1") == [("e-1", 9)]
    assert failures("?since=2026-02-09T12:00:30Z") == [("e-1", 9)]
    assert failures("?since=2026-02-08T12:00:00Z") == [("e-1", 9), ("e-2", 1), ("e-1", 1)]
    (shown,) = crm.json("GET", f"{CRM}/failures?$top=1")["value"]
    assert (shown["outcome"], shown["why"]) == ("Busy", "minimum for 503: 30 s")
    assert shown["nextAt"] is not None
    assert "$top must be" in crm.error("GET", f"{CRM}/failures?$top=0", status=400)["message"]
