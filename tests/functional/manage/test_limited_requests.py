"""Limits of requests that the operator sets: delivery attributes in ARM documents."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from shared.arm.subscription_codec import to_subscription
from shared.engine.operations.topic_states import topic_states
from shared.engine.ports import PROCESSES, Table
from shared.subscriptions.request_limits import RequestLimits
from tests.functional.manage.arm_api import CRM, ORDERS, URL, ArmApi, header, hook
from tests.functional.publish_requests import event

MEMBER = "deliveryAttributeMappings"


WRONG: list[Any] = ["0", "1.5", "100001", " 5", "٣", 10, None]


def limit(value: Any = "10", name: str = "webhook-max-requests", **changes: Any) -> dict[str, Any]:
    return header(value, name, isSecret=False) | changes


def test_limits_are_shown_and_end_with_their_mappings(orders: ArmApi) -> None:
    both = [limit(), limit("20", "WebHook-Max-Rate")]
    made = orders.json("PUT", CRM, hook(URL, *both), status=201)

    assert made["properties"]["destination"]["properties"][MEMBER] == both
    stored = to_subscription(orders.stored())
    assert (stored.limits, stored.headers) == (RequestLimits(10, 20), ())

    destination = hook(URL, both[1])["properties"]["destination"]
    orders.json("PATCH", CRM, {"destination": destination}, status=201)
    assert to_subscription(orders.stored()).limits == RequestLimits(None, 20)
    orders.json("PUT", CRM, hook(), status=201)
    assert to_subscription(orders.stored()).limits == RequestLimits()


@pytest.mark.parametrize("name", ["webhook-max-requests", "webhook-max-rate"])
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        *[
            ({"properties": {"value": value, "isSecret": False}}, "properties.value")
            for value in WRONG
        ],
        ({"properties": {"value": "5", "isSecret": True}}, "isSecret must be false"),
        ({"type": "Dynamic", "properties": {"sourceField": "data.n"}}, "type must be Static"),
    ],
)
def test_what_is_no_limit_is_refused_and_nothing_stored(
    orders: ArmApi, name: str, changes: dict[str, Any], told: str
) -> None:
    orders.json("PUT", CRM, hook(URL, limit(name=name)), status=201)
    before = orders.stored()

    wrong = hook(URL, limit(name=name, **changes))
    message = orders.error("PUT", CRM, wrong, status=400)["message"]

    assert orders.stored() == before
    assert f"{MEMBER}[0]" in message
    assert told in message


@pytest.mark.parametrize(
    ("processes", "shared"),
    [
        (0, "no process has sent to it yet"),
        (1, "one process has all of it"),
        (3, "3 processes share it: 1 and 6 or 7 each"),
        (4, "4 processes share it: 0 or 1 and 5 each"),
    ],
)
def test_limits_are_told_with_the_processes_that_share_them(
    orders: ArmApi, processes: int, shared: str
) -> None:
    both = hook(URL, limit("3"), limit("20", "webhook-max-rate"))
    orders.json("PUT", CRM, both, status=201)
    for number in range(processes):
        orders.resources.put(Table.TOPICS, PROCESSES, f"p{number}", {}, None)

    [found] = orders.json("POST", f"{ORDERS}/matches", [event() | {"dataVersion": "1"}])["value"]
    [topic] = topic_states(orders.resources, orders.clock.now())["value"]

    assert (found["matched"], found["limits"]) == (1, topic["subscriptions"][0]["limits"])
    assert found["limits"] == {
        "atOnce": 3,
        "perSecond": 20,
        "processes": processes,
        "text": f"at most 3 at a time and 20 a second; {shared}",
    }


def test_without_limits_processes_are_not_listed(
    orders: ArmApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = Mock(wraps=orders.resources.list)
    monkeypatch.setattr(orders.resources, "list", listed)
    orders.json("PUT", CRM, hook(), status=201)

    orders.json("POST", f"{ORDERS}/matches", [event() | {"dataVersion": "1"}])
    topic_states(orders.resources, orders.clock.now())

    assert listed.call_args_list
    assert PROCESSES not in {each.args[1] for each in listed.call_args_list}
