"""Topics of namespaces, from publishing to the blob. Contract §1.8, §2.1, §4."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from shared.engine.ports import Queue
from shared.events.topic import InputSchema
from shared.http import HttpAnswer, HttpRequest
from shared.subscriptions.subscription import (
    DeadLetterDestination,
    DeliverySchema,
    DynamicHeader,
    EventSubscription,
    RetryPolicy,
    StaticHeader,
)
from tests.builders import URL, a_topic, compact, noise
from tests.fakes import START, answered
from tests.functional.deployment import MINUTE, SECOND, Deployment

GROUP = "/subscriptions/s1/resourceGroups/rg/providers/Microsoft.EventGrid"
ID = f"{GROUP}/namespaces/shop/topics/Orders"
KEYS = ("a2V5MQ==", "a2V5Mg==", "a2V5Mw==", "a2V5NA==")
DEAD = DeadLetterDestination(container="dead")
BATCH = "application/cloudevents-batch+json; charset=utf-8"
STRUCTURED = "application/cloudevents+json; charset=utf-8"


@pytest.fixture
def shop(app: Deployment) -> Deployment:
    """Deploy the topic ``Orders`` of the namespace ``shop``, which keeps events for two days."""
    app.directory.topics["shop.orders"] = a_topic(
        name="shop.Orders",
        arm_id=ID,
        input_schema=InputSchema.CLOUD_EVENTS,
        keys=KEYS,
        profile="ns",
        retention=timedelta(days=2),
    )
    return app


def subscribe(app: Deployment, **overrides: Any) -> EventSubscription:
    return app.subscribe(
        topic="shop.Orders",
        topic_id=ID,
        input_schema=InputSchema.CLOUD_EVENTS,
        delivery_schema=DeliverySchema.CLOUD_EVENTS,
        **overrides,
    )


def event(number: int = 0, **attributes: Any) -> dict[str, Any]:
    return {"specversion": "1.0", "id": f"e-{number}", "source": "/s", "type": "t"} | attributes


def request(
    body: bytes,
    content_type: str = BATCH,
    headers: Mapping[str, str] | None = None,
    *,
    method: str = "POST",
    action: str = "orders:publish",
    version: str = "2024-06-01",
) -> HttpRequest:
    return HttpRequest(
        method=method,
        url=f"https://pushgrid.example/namespaces/shop/topics/{action}?api-version={version}",
        headers={"authorization": f"SharedAccessKey {KEYS[0]}", "content-type": content_type}
        | dict(headers or {}),
        params={"namespace": "shop", "action": action},
        query={"api-version": version} if version else {},
        body=body,
    )


def publish(app: Deployment, *events: Mapping[str, Any]) -> HttpAnswer:
    return app.publish.run(request(compact(list(events)).encode()))


def error(answer: HttpAnswer) -> tuple[int, str, str]:
    document = json.loads(answer.body)["error"]
    return answer.status, document["details"][0]["code"], document["message"]


@pytest.mark.parametrize("version", ["2024-06-01", "2023-11-01", "2023-06-01-preview", ""])
def test_what_is_stored_is_answered_with_an_empty_object(shop: Deployment, version: str) -> None:
    """An empty body makes the official Python client fail."""
    subscribe(shop)

    answer = shop.publish.run(request(compact([event(0), event(1)]).encode(), version=version))

    assert (answer.status, answer.body) == (200, b"{}")
    assert answer.headers["Content-Type"] == "application/json"
    (message,) = shop.on(Queue.DELIVERIES)
    assert (message.topic, len(message.deliveries)) == ("shop.Orders", 2)


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (request(compact(event()).encode(), STRUCTURED), event()),
        (request(compact([event()]).encode()), event()),
        (
            request(
                b"\x00\xff",
                "application/octet-stream",
                {f"ce-{name}": value for name, value in event(team="a").items()},
            ),
            event(team="a", datacontenttype="application/octet-stream", data_base64="AP8="),
        ),
    ],
    ids=["structured", "batch", "binary"],
)
def test_every_mode_is_read(shop: Deployment, given: HttpRequest, stored: dict[str, Any]) -> None:
    subscribe(shop)

    assert shop.publish.run(given).status == 200

    ((delivery,),) = [message.deliveries for message in shop.on(Queue.DELIVERIES)]
    assert json.loads(delivery.text or "") == stored


@pytest.mark.parametrize("key", KEYS)
def test_keys_of_the_namespace_and_of_the_topic_are_good(shop: Deployment, key: str) -> None:
    headers = {"authorization": f"sharedaccesskey {key}"}

    assert shop.publish.run(request(compact([event()]).encode(), headers=headers)).status == 200


REFUSED = {
    "an unknown topic": (
        {"action": "returns:publish"},
        404,
        "ResourceNotFound",
        "No HTTP resource",
    ),
    "no topic": ({"action": ":publish"}, 404, "ResourceNotFound", "No HTTP resource"),
    "no action": ({"action": "orders"}, 404, "ResourceNotFound", "No HTTP resource"),
    "a topic below": ({"action": "a/orders:publish"}, 404, "ResourceNotFound", "No HTTP resource"),
    "another action": ({"action": "orders:bury"}, 404, "ResourceNotFound", "No HTTP resource"),
    "pull delivery": (
        {"action": "orders/eventsubscriptions/crm:receive"},
        400,
        "UnsupportedOperation",
        "Pull delivery is not supported",
    ),
    "another method": ({"method": "OPTIONS"}, 405, "MethodNotAllowed", "does not support"),
    "no key": ({"headers": {"authorization": ""}}, 401, "Unauthorized", "unsupported"),
    "an empty key": (
        {"headers": {"authorization": "SharedAccessKey "}},
        400,
        "InvalidSas",
        "a value for SharedAccessKey",
    ),
    "a wrong key": (
        {"headers": {"authorization": "SharedAccessKey a2V5"}},
        401,
        "Unauthorized",
        "not authorized for PUSHGRID.EXAMPLE",
    ),
    "a key as custom topics take it": (
        {"headers": {"authorization": KEYS[0], "aeg-sas-key": KEYS[0]}},
        401,
        "Unauthorized",
        "must be SharedAccessKey or Bearer",
    ),
    "the api-version of custom topics": (
        {"version": "2018-01-01"},
        400,
        "UnsupportedApiVersion",
        "Use '2024-06-01'",
    ),
    "Event Grid's schema": ({"content_type": "text/plain"}, 415, "InvalidContentType", "header"),
    "too many events": (
        {"body": compact([event(number) for number in range(1001)]).encode()},
        400,
        "InputJsonInvalid",
        "The maximum number (1000) has been exceeded",
    ),
    "too large a request": (
        {"body": compact([event(data=noise(1_048_576))]).encode()},
        413,
        "PayloadTooLarge",
        "The maximum size (1048576) has been exceeded",
    ),
}


@pytest.mark.parametrize(("given", "status", "code", "message"), REFUSED.values(), ids=REFUSED)
def test_refusals_have_event_grids_form(
    shop: Deployment, given: dict[str, Any], status: int, code: str, message: str
) -> None:
    subscribe(shop)

    answer = shop.publish.run(request(**{"body": compact([event()]).encode()} | given))

    assert error(answer)[:2] == (status, code)
    assert message in error(answer)[2]
    assert shop.all_stored() == {}
    assert answer.headers.get("Allow") == ("POST" if status == 405 else None)


def test_the_route_of_custom_topics_does_not_lead_to_it(shop: Deployment) -> None:
    answer = shop.publish.run(
        HttpRequest(
            method="POST",
            url="https://pushgrid.example/topics/shop.orders/api/events",
            headers={"aeg-sas-key": KEYS[0], "content-type": BATCH},
            params={"topic": "shop.orders"},
            body=compact([event()]).encode(),
        )
    )

    assert answer.status == 404


def test_as_much_as_allowed_is_accepted_and_kept_for_two_weeks(shop: Deployment) -> None:
    """Design §2, order of writes 5: longer than 7 days of trying and 2 of writing dead letters."""
    subscribe(shop)
    frame = len(compact([event(data="")]))

    answer = publish(shop, event(data=noise(1_048_576 - frame)))

    assert answer.status == 200
    (name,) = shop.payloads.blobs
    assert name.startswith(f"{START + timedelta(days=14):%Y%m%d%H}")


def test_the_profile_of_namespaces_rules_whatever_the_default(shop: Deployment) -> None:
    """404 is never retried there; and headers say that it is of a namespace."""
    subscribe(shop)
    shop.pusher.script(URL, answered(500), answered(404))
    publish(shop, event())

    shop.run(shop.on(Queue.DELIVERIES)[0])
    (retry,) = shop.on(Queue.RETRIES)
    shop.clock.advance(10 * SECOND)
    shop.queues.stored[Queue.RETRIES].clear()
    shop.run(retry)

    assert shop.queues.waits(Queue.RETRIES) == []
    first, second = (sent.request for sent in shop.pusher.sent)
    assert first.headers["aeg-compatibility-mode-enabled"] == "false"
    assert [each.headers["aeg-delivery-count"] for each in (first, second)] == ["0", "1"]
    assert first.headers["Content-Type"] == STRUCTURED
    assert json.loads(first.body) == event()


HEADERS = (
    StaticHeader(name="X-Team", value="crm"),
    StaticHeader(name="X-Key", value="s3cret", is_secret=True),
    DynamicHeader(name="X-Kind", path=("data", "kind")),
    DynamicHeader(name="X-None", path=("data", "none")),
)


def buried(app: Deployment) -> tuple[str, list[dict[str, Any]]]:
    """Write the dead letters, and return the folder and the content of their only blob."""
    app.clock.advance(5 * MINUTE)
    app.write_dead_letters.run(app.in_a_minute())
    (((container, path), body),) = app.dead_letters.blobs.items()
    return f"{container}/{path.rpartition('/')[0]}", json.loads(body)


def test_a_dead_letter_is_in_the_envelope_of_namespaces(shop: Deployment) -> None:
    subscribe(shop, name="Crm", dead_letter=DEAD, headers=HEADERS)
    shop.pusher.script(URL, answered(401))
    given = event(data={"kind": 7, "text": "grüße"}, team="a")
    publish(shop, given)

    shop.run(shop.on(Queue.DELIVERIES)[0])

    assert buried(shop) == (
        "dead/shop/Orders/Crm/2026/2/9/12",
        [
            {
                "deadLetterProperties": {
                    "deadletterreason": "Undeliverable due to client error",
                    "deliveryattempts": 1,
                    "deliveryresult": "Unauthorized",
                    "publishutc": "2026-02-09T12:00:00.0000000Z",
                    "deliveryattemptutc": "2026-02-09T12:00:00.0000000Z",
                },
                "event": given,
                "customDeliveryProperties": {"X-Team": "crm", "X-Kind": "7"},
            }
        ],
    )


def test_attempts_used_up_have_the_documented_reason(shop: Deployment) -> None:
    subscribe(shop, dead_letter=DEAD, retry_policy=RetryPolicy(max_delivery_attempts=1))
    shop.pusher.script(URL, answered(503))
    publish(shop, event())

    shop.run(shop.on(Queue.DELIVERIES)[0])

    _, (letter,) = buried(shop)
    told = letter["deadLetterProperties"]
    assert told["deadletterreason"] == "Maximum delivery attempts was exceeded."
    assert "customDeliveryProperties" not in letter


def test_retention_ends_what_the_subscription_would_still_try(shop: Deployment) -> None:
    """At most 7 days or the topic's retention, whichever is lower: here two days."""
    subscribe(shop, dead_letter=DEAD, retry_policy=RetryPolicy(event_time_to_live_minutes=10080))
    publish(shop, event())
    shop.clock.advance(timedelta(days=2))

    shop.run(shop.on(Queue.DELIVERIES)[0])

    assert shop.pusher.sent == []
    _, (letter,) = buried(shop)
    assert letter["deadLetterProperties"] == {
        "deadletterreason": "Time to live was exceeded.",
        "deliveryattempts": 0,
        "deliveryresult": "Event was not acknowledged nor rejected.",
        "publishutc": "2026-02-09T12:00:00.0000000Z",
    }


def test_writing_it_is_tried_for_two_days(shop: Deployment) -> None:
    subscribe(shop, dead_letter=DEAD)
    shop.pusher.script(URL, answered(400))
    publish(shop, event())

    shop.run(shop.on(Queue.DELIVERIES)[0])

    (message,) = shop.on(Queue.DEADLETTERS)
    assert message.dead_letter is not None
    assert message.dead_letter.keep_until == START + 5 * MINUTE + timedelta(days=2)
