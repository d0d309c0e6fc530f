"""Publishing to topics of namespaces. Contract §1.8."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from pushgrid.testing.memory import START
from shared.engine.ports import Queue
from shared.http import HttpAnswer, HttpRequest
from tests.builders import compact, noise
from tests.functional.deployment import Deployment
from tests.functional.namespace_shop import (
    BATCH,
    KEYS,
    STRUCTURED,
    event,
    publish,
    request,
    subscribe,
)
from tests.functional.publish_requests import publish as publish_to_custom


def error(answer: HttpAnswer) -> tuple[int, str, str]:
    document = json.loads(answer.body)["error"]
    return answer.status, document["details"][0]["code"], document["message"]


@pytest.mark.parametrize("version", ["2024-06-01", "2023-11-01", "2023-06-01-preview", ""])
def test_what_is_stored_is_answered_with_an_empty_object(shop: Deployment, version: str) -> None:
    """An empty body makes the official Python client fail."""
    subscribe(shop)

    answer = shop.answer(request(compact([event(0), event(1)]).encode(), version=version))

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

    assert shop.answer(given).status == 200

    ((delivery,),) = [message.deliveries for message in shop.on(Queue.DELIVERIES)]
    assert json.loads(delivery.text or "") == stored


@pytest.mark.parametrize("key", KEYS)
def test_keys_of_the_namespace_and_of_the_topic_are_good(shop: Deployment, key: str) -> None:
    headers = {"authorization": f"sharedaccesskey {key}"}

    assert shop.answer(request(compact([event()]).encode(), headers=headers)).status == 200


_NO_TOPIC = 404, "ResourceNotFound", "No HTTP resource"
_UNAUTHORIZED = 401, "Unauthorized"
_EMPTY_KEY = 400, "InvalidSas", "a value for SharedAccessKey"
_WRONG_KEY = *_UNAUTHORIZED, "The key is not one of the namespace's, or there is no such topic."
_CUSTOM_KEY = {"authorization": KEYS[0], "aeg-sas-key": KEYS[0]}
_MANY = compact([event(number) for number in range(1001)]).encode()
_LARGE = compact([event(data=noise(1_048_576))]).encode()
_PULL = 400, "UnsupportedOperation", "subscribe a webhook"
_VERSION = 400, "UnsupportedApiVersion", "Use '2024-06-01'"
REFUSED: dict[str, tuple[dict[str, Any], int, str, str]] = {
    "an unknown topic": ({"action": "returns:publish"}, *_NO_TOPIC),
    "no topic": ({"action": ":publish"}, *_NO_TOPIC),
    "no action": ({"action": "orders"}, *_NO_TOPIC),
    "a topic below": ({"action": "a/orders:publish"}, *_NO_TOPIC),
    "another action": ({"action": "orders:bury"}, *_NO_TOPIC),
    "pull delivery": ({"action": "orders/eventsubscriptions/crm:receive"}, *_PULL),
    "another method": ({"method": "OPTIONS"}, 405, "MethodNotAllowed", "does not support"),
    "no key": ({"headers": {"authorization": ""}}, *_UNAUTHORIZED, "unsupported"),
    "an empty key": ({"headers": {"authorization": "SharedAccessKey "}}, *_EMPTY_KEY),
    "an unknown topic, with the key of a topic": (
        {"action": "returns:publish", "headers": {"authorization": f"SharedAccessKey {KEYS[2]}"}},
        *_WRONG_KEY,
    ),
    "a wrong key": ({"headers": {"authorization": "SharedAccessKey a2V5"}}, *_WRONG_KEY),
    "a custom topic's key": (
        {"headers": _CUSTOM_KEY},
        *(*_UNAUTHORIZED, "must be SharedAccessKey or Bearer"),
    ),
    "a custom topic's api-version": ({"version": "2018-01-01"}, *_VERSION),
    "Event Grid's schema": ({"content_type": "text/plain"}, 415, "InvalidContentType", "header"),
    "too many events": ({"body": _MANY}, 400, "InputJsonInvalid", "number (1000) has been"),
    "too large a request": ({"body": _LARGE}, 413, "PayloadTooLarge", "size (1048576) has been"),
}


@pytest.mark.parametrize(("given", "status", "code", "message"), REFUSED.values(), ids=REFUSED)
def test_refusals_have_event_grids_form(
    shop: Deployment, given: dict[str, Any], status: int, code: str, message: str
) -> None:
    subscribe(shop)

    answer = shop.answer(request(**{"body": compact([event()]).encode()} | given))

    assert error(answer)[:2] == (status, code)
    assert message in error(answer)[2]
    assert shop.all_stored() == {}
    assert answer.headers.get("Allow") == ("POST" if status == 405 else None)


@pytest.mark.parametrize("topic", ["shop.orders", "system-acct"])
def test_the_route_of_custom_topics_leads_to_no_other(shop: Deployment, topic: str) -> None:
    answer = publish_to_custom(shop, event(), topic=topic, aeg_sas_key=KEYS[0], content_type=BATCH)

    assert answer.status == 404


def test_as_much_as_allowed_is_accepted_and_kept_for_two_weeks(shop: Deployment) -> None:
    """Design §2, order of writes 5: longer than 7 days of trying, and 4 hours for the blob."""
    subscribe(shop)
    frame = len(compact([event(data="")]))

    answer = publish(shop, event(data=noise(1_048_576 - frame)))

    assert answer.status == 200
    (name,) = shop.payloads.blobs
    assert name.startswith(f"{START + timedelta(days=14):%Y%m%d%H}")
