"""What endpoints hear when their subscriptions end."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from shared.http import Failure, NotAnswered, OutboundRequest
from tests.fakes import answered
from tests.functional.manage.arm_api import CRM, ORDERS, URL, ArmApi, hook

OTHER = "https://other.example/hook"
CLOUD = {"eventDeliverySchema": "CloudEventSchemaV1_0"}


def notices(api: ArmApi) -> list[OutboundRequest]:
    return [
        sent.request
        for sent in api.pusher.sent
        if sent.request.headers.get("aeg-event-type") == "SubscriptionDeletion"
    ]


def test_an_endpoint_hears_that_its_subscription_is_deleted(orders: ArmApi) -> None:
    mappings = [{"name": "x-key", "type": "Static", "properties": {"value": "s3"}}]
    body = hook()
    body["properties"]["destination"]["properties"]["deliveryAttributeMappings"] = mappings
    orders.json("PUT", CRM, body, status=201)

    orders.call("DELETE", CRM)

    (notice,) = notices(orders)
    assert (notice.method, notice.url) == ("POST", URL)
    assert notice.headers == {
        "Content-Type": "application/json; charset=utf-8",
        "aeg-event-type": "SubscriptionDeletion",
        "aeg-subscription-name": "CRM",
        "aeg-delivery-count": "0",
        "aeg-data-version": "1",
        "aeg-metadata-version": "1",
        "x-key": "s3",
    }
    (event,) = json.loads(notice.body)
    assert event.pop("id")
    assert event == {
        "topic": ORDERS,
        "subject": "",
        "eventType": "Microsoft.EventGrid.SubscriptionDeletedEvent",
        "eventTime": "2026-02-09T12:00:00.0000000Z",
        "metadataVersion": "1",
        "dataVersion": "1",
        "data": {"eventSubscriptionId": CRM},
    }


def test_endpoints_of_cloud_events_hear_it_in_their_schema(orders: ArmApi) -> None:
    orders.json("PUT", CRM, hook(**CLOUD), status=201)

    orders.call("DELETE", CRM)

    (notice,) = notices(orders)
    assert notice.headers["Content-Type"] == "application/cloudevents+json; charset=utf-8"
    event = json.loads(notice.body)
    assert event.pop("id")
    assert event == {
        "specversion": "1.0",
        "source": ORDERS,
        "type": "Microsoft.EventGrid.SubscriptionDeletedEvent",
        "time": "2026-02-09T12:00:00.0000000Z",
        "data": {"eventSubscriptionId": CRM},
    }


@pytest.mark.parametrize(
    "exchange", [answered(500), NotAnswered(Failure.TIMED_OUT, "", 5)], ids=["500", "silence"]
)
def test_whatever_the_endpoint_answers_changes_nothing(
    orders: ArmApi, exchange: NotAnswered
) -> None:
    orders.json("PUT", CRM, hook(), status=201)
    orders.pusher.script(URL, exchange)

    assert orders.call("DELETE", CRM).status == 204
    assert orders.call("GET", CRM).status == 404
    orders.call("DELETE", CRM)
    assert len(notices(orders)) == 1


def test_all_endpoints_of_a_deleted_topic_hear_it(orders: ArmApi) -> None:
    orders.json("PUT", CRM, hook(), status=201)
    orders.json("PUT", f"{CRM}-2", hook(OTHER), status=201)

    orders.call("DELETE", ORDERS)

    assert [notice.url for notice in notices(orders)] == [URL, OTHER]


def test_who_never_consented_hears_nothing(orders: ArmApi) -> None:
    orders.pusher.script(URL, answered(200))
    orders.json("PUT", CRM, hook(), status=201)

    orders.call("DELETE", CRM)

    assert notices(orders) == []


def test_the_endpoint_in_force_hears_it(orders: ArmApi) -> None:
    orders.json("PUT", CRM, hook(), status=201)
    orders.pusher.script(OTHER, answered(200))
    orders.json("PUT", CRM, hook(OTHER), status=201)
    orders.clock.advance(timedelta(minutes=1))

    orders.call("DELETE", CRM)

    assert [notice.url for notice in notices(orders)] == [URL]
