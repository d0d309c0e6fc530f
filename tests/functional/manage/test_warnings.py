"""What is stored, but hardly matches, is told to whoever writes it or asks."""

from __future__ import annotations

from typing import Any

import pytest
from azure.mgmt.eventgrid.models import EventSubscription

from tests.functional.manage.arm_api import CRM, ORDERS, SHOP_CRM, ArmApi, hook, push

TYPE = "includedEventTypes has ' Placed', with a blank around it"
KEY = "The key 'eventtype' is an extension in CloudEvents"
BLANK = {"includedEventTypes": [" Placed"]}
OTHER = {"filters": [{"operatorType": "IsNotNull", "key": "eventtype"}]}


def of_namespace() -> dict[str, Any]:
    body = push()
    body["properties"]["filtersConfiguration"] = OTHER
    return body


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [(CRM, hook(filter=BLANK), TYPE), (SHOP_CRM, of_namespace(), KEY)],
)
def test_all_answers_that_show_it_warn(full: ArmApi, path: str, body: Any, expected: str) -> None:
    asked = full.json("POST", f"{path}/whatIf", body)
    made = full.json("PUT", path, body, status=201)
    again = full.json("POST", f"{path}/whatIf", body)
    shown = full.json("GET", path)

    (warning,) = asked["after"]["warnings"]
    assert warning.startswith(expected)
    assert made["warnings"] == [warning]
    assert again == {"changeType": "NoChange", "before": shown, "after": shown}
    assert made == shown


def test_a_patch_warns_and_a_client_of_arm_is_not_disturbed(orders: ArmApi) -> None:
    orders.json("PUT", CRM, hook(), status=201)

    patched = orders.json("PATCH", CRM, {"filter": BLANK}, status=201)
    quiet = orders.json("PATCH", CRM, {"labels": ["a"], "filter": {}}, status=201)

    assert patched["warnings"][0].startswith(TYPE)
    assert "warnings" not in quiet
    read: Any = EventSubscription.deserialize(patched)
    assert (read.name, read.filter.included_event_types) == ("crm", [" Placed"])


def test_predictions_warn_of_the_filter_in_force(orders: ArmApi) -> None:
    orders.json("PUT", CRM, hook(filter=BLANK), status=201)
    event = {"id": "1", "eventType": "Placed", "subject": "", "eventTime": "2026-02-09T12:00:00Z"}

    (found,) = orders.json("POST", f"{ORDERS}/matches", [event])["value"]

    assert found["matched"] == 0
    assert [each.partition(":")[0] for each in found["warnings"]] == [
        f"{TYPE}, which hardly any event has"
    ]
