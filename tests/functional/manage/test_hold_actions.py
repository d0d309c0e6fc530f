"""Operators pause and resume subscriptions, and end automatic holds. Design §5."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from pushgrid.testing.memory import START, answered
from shared.engine.ports import Table
from shared.metrics import Metric
from tests.functional.deployment import Logged
from tests.functional.manage.arm_api import (
    CRM,
    GROUP,
    ORDERS,
    SHOP_CRM,
    URL,
    ArmApi,
    hook,
)
from tests.unit.arm.documents import dead_letter

NOW = "2026-02-09T12:00:00.0000000Z"
PAUSED = {"since": NOW, "by": "the admin key"}
EXTENSION = f"{ORDERS}/providers/Microsoft.EventGrid/eventSubscriptions/crm"


def stored_health(api: ArmApi) -> Mapping[str, Any]:
    row = api.resources.get(Table.ENDPOINT_HEALTH, "orders", "crm")
    assert row
    return row.document


@pytest.mark.parametrize("form", [CRM, EXTENSION, SHOP_CRM])
def test_every_form_of_subscription_is_paused_and_resumed(full: ArmApi, form: str) -> None:
    topic = "shop.orders" if form == SHOP_CRM else "orders"
    shown = full.json("GET", form)

    paused = full.json("POST", f"{form}/pause")
    assert full.in_force(topic).pause == (START, "the admin key")
    assert full.json("GET", form) == shown  # The ARM document stays Event Grid's.
    assert full.json("GET", f"{form}/attempts")["state"]["paused"] == PAUSED
    resumed = full.json("POST", f"{form}/resume")

    assert (paused["topic"], paused["subscription"]) == (topic, "crm")
    assert (paused["changed"], paused["paused"]) == (True, PAUSED)
    assert (resumed["changed"], resumed["paused"]) == (True, None)
    assert full.in_force(topic).pause is None


def test_a_pause_tells_what_becomes_of_the_events(crm: ArmApi) -> None:
    assert "is dropped 24 h after it was published" in crm.json("POST", f"{CRM}/pause")["message"]

    policy = {"eventTimeToLiveInMinutes": 90, "maxDeliveryAttempts": 3}
    patch = {"retryPolicy": policy, "deadLetterDestination": dead_letter()}
    crm.json("PATCH", CRM, patch, status=201)

    assert "is dead-lettered 90 min after" in crm.json("POST", f"{CRM}/pause")["message"]


@pytest.mark.parametrize("action", ["pause", "resume", "release"])
def test_only_what_there_is_can_be_held(crm: ArmApi, action: str) -> None:
    assert crm.error("POST", f"{CRM}x/{action}", status=404)["code"] == "ResourceNotFound"
    assert crm.call("POST", f"{ORDERS}x/eventSubscriptions/crm/{action}").status == 404
    crm.resources.damage(Table.EVENT_SUBSCRIPTIONS, "orders", "crm")
    assert crm.call("POST", f"{CRM}/{action}").status == 503


def test_a_pause_that_loses_a_race_is_merged(crm: ArmApi) -> None:
    crm.before_put(lambda: crm.json("PATCH", CRM, {"labels": ["new"]}, status=201))

    crm.json("POST", f"{CRM}/pause")

    assert crm.stored()["properties"]["labels"] == ["new"]
    assert crm.in_force().pause


def test_an_update_that_awaits_its_consent_is_paused_in_both_versions(crm: ArmApi) -> None:
    other = "https://other.example/hook"
    crm.json("POST", f"{CRM}/pause")
    crm.pusher.script(other, answered(200))
    crm.json("PUT", CRM, hook(other), status=201)

    assert crm.state() == "AwaitingManualAction"
    assert (crm.in_force().endpoint_url, crm.in_force().pause) == (URL, (START, "the admin key"))
    crm.open_link(crm.validation_link())
    assert (crm.in_force().endpoint_url, crm.in_force().pause) == (other, (START, "the admin key"))


@pytest.mark.parametrize(
    ("begun", "released_at"),
    [(3, "2026-02-09T12:00:03"), (6 * 3600, "2026-02-09T12:00:0")],
    ids=["a little ahead", "far ahead"],
)
def test_a_release_ends_the_hold_for_all_processes(
    crm: ArmApi, begun: int, released_at: str
) -> None:
    """Also one that began by a clock that is ahead. Failures count anew, and later holds begin."""
    crm.hold(begun=begun)
    assert crm.json("GET", f"{CRM}/attempts")["state"]["held"]["until"].startswith("2026-02-09T12:")

    released = crm.json("POST", f"{CRM}/release")

    assert (released["changed"], released["held"]) == (True, None)
    health = stored_health(crm)
    assert (health["hold"], health["failures"]) == (None, 0)
    assert health["releasedAt"].startswith(released_at)


def test_a_release_ends_no_pause_and_says_so(crm: ArmApi) -> None:
    crm.json("POST", f"{CRM}/pause")
    crm.hold()
    assert crm.json("POST", f"{CRM}/pause")["held"]["why"] == "probation for NotFound: 5 min"

    released = crm.json("POST", f"{CRM}/release")

    assert (released["changed"], released["held"], released["paused"]) == (True, None, PAUSED)
    assert released["message"].endswith("It is paused, which only 'resume' ends.")


def test_the_hold_of_an_earlier_endpoint_is_none(crm: ArmApi) -> None:
    crm.hold()
    crm.json("PUT", CRM, hook("https://other.example/hook"), status=201)

    assert crm.json("POST", f"{CRM}/release")["changed"] is False
    assert stored_health(crm)["hold"]


def test_a_release_that_loses_a_race_is_made_again(crm: ArmApi) -> None:
    crm.hold()
    key, health = crm.in_force().key, crm.table.health
    row = health.read(key)
    assert row
    crm.before_put(lambda: health.write(key, replace(row.health, failures=13), row.etag))

    assert crm.json("POST", f"{CRM}/release")["changed"]
    assert stored_health(crm)["hold"] is None
    assert crm.backoffs == [1]


@pytest.mark.parametrize("pause", [7, {}, [], {"since": "2026-02-09T12:00:00", "by": "x"}])
def test_a_damaged_pause_makes_its_row_unreadable(crm: ArmApi, pause: object) -> None:
    """Its events wait then, too; a PUT ends that, and the pause with it."""
    crm.resources.damage(
        Table.EVENT_SUBSCRIPTIONS, "orders", "crm", {**crm.stored(), "pause": pause}
    )
    assert crm.call("GET", CRM).status == 503

    crm.json("PUT", CRM, hook(), status=201)

    assert crm.in_force().pause is None


def test_an_action_is_told_as_any_hold_and_repeated_changes_nothing(
    crm: ArmApi, logged: Logged
) -> None:
    def act(action: str) -> list[tuple[bool, str]]:
        answers = [crm.json("POST", f"{CRM}/{action}") for _ in range(2)]
        return [(each["changed"], each["message"].partition(":")[0]) for each in answers]

    assert act("pause") == [(True, "Paused"), (False, "Already paused")]
    crm.clock.advance(timedelta(minutes=2))
    assert act("resume") == [(True, "Resumed"), (False, "It was not paused.")]
    crm.hold()
    assert act("release") == [(True, "Released"), (False, "Its endpoint was not held.")]

    lines = logged("subscription.changed")
    assert [line["action"] for line in lines] == ["pause", "resume", "release"]
    assert {line["generation"] for line in lines} == {crm.in_force().generation}
    named = {"topic": "orders", "subscription": "crm", "by": "the admin key"}
    assert logged("hold.began") == [
        {"event": "hold.began", **named, "reason": "Pause", "cause": "paused", "why": "paused"}
    ]
    paused, released = logged("hold.ended")
    ended = {"event": "hold.ended", **named}
    assert paused == {**ended, "reason": "Pause", "because": "resumed", "seconds": 120.0}
    assert released == {**ended, "reason": "Probation", "because": "released", "seconds": 120.0}
    assert crm.metrics.of(Metric.HOLDS_BEGAN) == {("Pause", "orders", "crm"): 1}
    assert crm.metrics.of(Metric.HOLDS_ENDED) == {
        ("Pause", "orders", "crm"): 1,
        ("Probation", "orders", "crm"): 1,
    }


def test_all_holds_of_a_resource_group_are_listed(full: ArmApi) -> None:
    """Of topics of namespaces as well; not those of a deleted subscription, or over by time."""
    crm = full
    for name in ("fine", "bad"):
        crm.json("PUT", f"{ORDERS}/eventSubscriptions/{name}", hook(), status=201)
    assert crm.json("GET", f"{GROUP}/holds") == {"value": []}
    crm.json("POST", f"{CRM}/pause")
    crm.json("POST", f"{ORDERS}/eventSubscriptions/bad/pause")
    crm.resources.damage(Table.EVENT_SUBSCRIPTIONS, "orders", "bad")
    crm.hold()
    crm.hold("shop.orders")
    held = {"until": "2026-02-09T12:05:00.0000000Z", "why": "probation for NotFound: 5 min"}
    shop = {"topic": "shop.orders", "subscription": "crm", "paused": None}

    found = crm.json("GET", f"{GROUP}/holds")["value"]
    crm.clock.advance(timedelta(minutes=5))
    later = crm.json("GET", f"{GROUP}/holds")["value"]
    elsewhere = crm.json("GET", f"{GROUP.replace('/rg/', '/other/')}/holds")["value"]

    own = {"topic": "orders", "subscription": "crm", "paused": PAUSED}
    assert found == [{**own, "held": held}, {**shop, "held": held}]
    due = {"until": None, "why": "probation for NotFound: 5 min; a probe is due"}
    assert later == [{**own, "held": due}, {**shop, "held": due}]
    assert elsewhere == []
