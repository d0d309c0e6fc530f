"""Replays of dead letters, on a deployment in memory."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pushgrid.testing.deployment import Pushgrid
from pushgrid.testing.topic import Refused, Subscriber

PLACED = {"id": "e-17", "eventType": "Shop.OrderPlaced", "subject": "/orders/17"}
AT = "2026-02-09T11:59:00Z"


@pytest.fixture
def crm(pushgrid: Pushgrid) -> Subscriber:
    """A subscription with three dead letters in two blobs; now it answers 200."""
    orders = pushgrid.topic("orders")
    subscriber = orders.subscribe("crm", answers=[400, 400, 400, 200])
    orders.publish([{**PLACED, "id": "e-1", "eventTime": AT}, {**PLACED, "id": "e-2"}])
    pushgrid.advance(hours=1)
    orders.publish({**PLACED, "id": "e-3"})
    pushgrid.advance(hours=1)
    return subscriber


def replayed(pushgrid: Pushgrid, **members: Any) -> dict[str, Any]:
    """Replay, and return the job as it ended."""
    job = pushgrid.arm("POST", "replays", members)
    pushgrid.advance(minutes=5)
    found: dict[str, Any] = pushgrid.arm("GET", f"replays/{job['id']}")
    return found


def ids(subscriber: Subscriber) -> list[str]:
    return [each["id"] for each in subscriber.received]


def test_each_event_goes_to_its_subscription_anew(pushgrid: Pushgrid, crm: Subscriber):
    blobs = dict(pushgrid.dead_letters.blobs)

    job = replayed(pushgrid, topic="orders", subscription="crm")

    assert (job["state"], job["blobs"], job["events"], job["replayed"]) == ("Done", 2, 3, 3)
    assert ids(crm) == ["e-1", "e-2", "e-3"]
    assert crm.received[0]["eventTime"] == AT
    assert "deadLetterReason" not in crm.received[0]
    assert {each.request.headers["aeg-delivery-count"] for each in crm.attempts} == {"0"}
    assert pushgrid.dead_letters.blobs == blobs


def test_a_second_replay_sends_nothing_unless_it_is_asked_to(pushgrid: Pushgrid, crm: Subscriber):
    replayed(pushgrid)

    second = replayed(pushgrid)
    third = replayed(pushgrid, again=True)

    assert (second["replayed"], second["skipped"]) == (0, {"ReplayedBefore": 3})
    assert third["replayed"] == 3
    assert ids(crm) == ["e-1", "e-2", "e-3"] * 2


def test_a_dry_run_sends_and_records_nothing(pushgrid: Pushgrid, crm: Subscriber):
    job = replayed(pushgrid, dryRun=True)

    assert (job["state"], job["replayed"], ids(crm)) == ("Done", 3, [])
    assert replayed(pushgrid)["replayed"] == 3
    assert len(ids(crm)) == 3


def test_some_are_chosen(pushgrid: Pushgrid, crm: Subscriber):
    for members, count in (
        ({"prefix": "CRM/2026/2/9/13"}, 1),
        ({"prefix": "ERP"}, 0),
        ({"since": "2026-02-09T13:00:00Z"}, 1),
        ({"until": "2026-02-09T13:00:00Z"}, 2),
        ({"reason": "undeliverabledueToHttpBadRequest"}, 3),
        ({"reason": "TimeToLiveExceeded"}, 0),
    ):
        assert replayed(pushgrid, dryRun=True, **members)["replayed"] == count, members
    assert ids(crm) == []


def test_another_subscription_gets_them(pushgrid: Pushgrid, crm: Subscriber):
    erp = pushgrid.topic("invoices").subscribe("erp", filter={"subjectBeginsWith": "/none"})

    job = replayed(
        pushgrid, subscription="crm", to={"topic": "invoices", "subscription": "erp"}, rate=1
    )

    assert (job["replayed"], ids(erp), ids(crm)) == (3, ["e-1", "e-2", "e-3"], [])


def test_events_come_paced(pushgrid: Pushgrid, crm: Subscriber):
    pushgrid.arm("POST", "replays", {"rate": 1})
    pushgrid.advance(minutes=5)

    first, *_, last = (each.at for each in crm.attempts[-3:])
    assert (last - first).total_seconds() == 2


def test_what_fails_again_is_dead_lettered_and_not_replayed_by_the_same_job(
    pushgrid: Pushgrid, crm: Subscriber
):
    crm.answer(400)

    job = replayed(pushgrid)
    pushgrid.advance(minutes=30)

    assert job["replayed"] == 3
    assert len(crm.attempts) == 6
    assert len(crm.dead_letters) == 6


def test_bad_blobs_are_named(pushgrid: Pushgrid, crm: Subscriber):
    first, second = sorted(pushgrid.dead_letters.blobs)
    (letter,) = json.loads(pushgrid.dead_letters.blobs[second])
    pushgrid.dead_letters.blobs[first] = b"oops"
    pushgrid.dead_letters.blobs[second] = json.dumps([{}, letter | {"id": 5}, letter]).encode()

    job = replayed(pushgrid)

    assert (job["state"], job["replayed"], ids(crm)) == ("Done", 1, ["e-3"])
    assert [each["where"] for each in job["faults"]] == [
        first[1],
        f"{second[1]} [0]",
        f"{second[1]} [1]",
    ]
    assert job["skipped"] == {"Unreadable": 1, "NotReplayable": 1}


def test_a_subscription_that_is_gone_fails_the_job(pushgrid: Pushgrid, crm: Subscriber):
    pushgrid.arm("POST", "replays", {"rate": 1})
    crm.delete()
    pushgrid.advance(minutes=5)

    (job,) = pushgrid.arm("GET", "replays")["value"]
    assert job["state"] in ("Failed", "Done")


def test_one_replay_runs_at_a_time(pushgrid: Pushgrid, crm: Subscriber):
    pushgrid.dead_letters.away.add("testing")
    first = pushgrid.arm("POST", "replays", {})

    with pytest.raises(Refused, match=first["id"]):
        pushgrid.arm("POST", "replays", {})
    cancelled = pushgrid.arm("POST", f"replays/{first['id']}/cancel")

    assert cancelled["state"] == "Cancelled"
    pushgrid.dead_letters.away.clear()
    assert replayed(pushgrid)["replayed"] == 3
    assert len(ids(crm)) == 3
