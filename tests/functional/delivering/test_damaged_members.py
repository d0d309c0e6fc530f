"""Stored documents with one wrong member: no event is lost, and nobody else notices."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from pushgrid.testing.memory import answered
from shared.engine.ports import Document, Queue, Table
from shared.errors import UnreadableDocument
from tests.functional.delivering.product import Product, a_product
from tests.functional.deployment import SECOND, Deployment
from tests.functional.manage.arm_api import CRM, ORDERS, URL, hook

AUDIT_URL = "https://audit.example/hook"
SUBSCRIPTION = Table.EVENT_SUBSCRIPTIONS, "orders", "crm"
TOPIC = Table.TOPICS, "topic", "orders"
WRONG: tuple[Any, ...] = (None, 0, -1, True, [], {}, [None], {"a": 1}, float("nan"), 10**400)
_ACCOUNT = "/subscriptions/s1/resourceGroups/rg/providers/Microsoft.Storage/storageAccounts/acct"
FULL: dict[str, Any] = {
    "deadLetterDestination": {
        "endpointType": "StorageBlob",
        "properties": {"resourceId": _ACCOUNT, "blobContainerName": "dead"},
    },
    "expirationTimeUtc": "2099-01-01T00:00:00Z",
    "filter": {
        "includedEventTypes": ["Shop.OrderPlaced"],
        "subjectBeginsWith": "/orders",
        "advancedFilters": [
            {"operatorType": "NumberGreaterThan", "key": "data.n", "value": 0.5},
            {"operatorType": "NumberInRange", "key": "data.n", "values": [[1, 9]]},
            {"operatorType": "StringBeginsWith", "key": "subject", "values": ["/"]},
        ],
    },
    "retryPolicy": {"maxDeliveryAttempts": 10, "eventTimeToLiveInMinutes": 60},
}


@pytest.fixture
def product(app: Deployment) -> Product:
    """``crm``, with all that a subscription can have, and ``audit``; every endpoint accepts."""
    product = a_product(app)
    webhook = hook(**FULL)
    webhook["properties"]["destination"]["properties"] |= {
        "maxEventsPerBatch": 5,
        "deliveryAttributeMappings": [
            {"name": "a", "type": "Static", "properties": {"value": "v"}},
            {"name": "b", "type": "Dynamic", "properties": {"sourceField": "data.n"}},
        ],
    }
    product.api.pusher.script(URL)
    product.api.json("PUT", CRM, webhook, status=201)
    product.api.json("PUT", f"{ORDERS}/eventSubscriptions/audit", hook(AUDIT_URL), status=201)
    for url in (URL, AUDIT_URL):
        product.api.pusher.script(url, answered(200))
    return product


def paths(value: object, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if at:
        yield at
    if isinstance(value, dict | list):
        members = value.items() if isinstance(value, dict) else enumerate(value)
        for name, member in members:
            yield from paths(member, (*at, name))


def with_wrong(document: Document, path: tuple[Any, ...], wrong: object) -> Document:
    damaged: Any = copy.deepcopy(document)
    *names, last = path
    holder = damaged
    for name in names:
        holder = holder[name]
    holder[last] = wrong
    return damaged  # type: ignore[no-any-return]


def stored(product: Product, place: tuple[Table, str, str]) -> Document:
    found = product.app.resources.get(*place)
    assert found
    return found.document


def damage(product: Product, place: tuple[Table, str, str], document: Document) -> None:
    product.app.resources.damage(*place, document)
    product.app.clock.advance(5 * SECOND)  # nothing is cached any more


@pytest.mark.slow
def test_an_event_reaches_the_subscription_or_waits_for_it(product: Product) -> None:
    """Publishing answered 500, pushed to no URL, never ended, or forgot the subscription."""
    good = stored(product, SUBSCRIPTION)
    odd: list[object] = []
    cases = [(path, wrong) for path in paths(good) for wrong in WRONG]
    cases += [((name,), "x") for name in ("name", "topicName")]
    for path, wrong in cases:
        damage(product, SUBSCRIPTION, with_wrong(good, path, wrong))
        product.api.pusher.sent.clear()
        product.app.queues.stored.clear()
        product.publish(1)
        product.deliver()
        urls = sorted(each.request.url for each in product.api.pusher.sent)
        waits = len(product.app.on(Queue.WAITING))
        if (urls, waits) not in [([AUDIT_URL, URL], 0), ([AUDIT_URL], 1)]:
            odd.append((path, wrong, urls, waits))

    assert odd == []
    assert len(cases) > 400


def test_a_topic_is_whole_or_can_t_be_read(product: Product) -> None:
    """Keys that are no text made a publish request a 500, another name lost its events."""
    good = stored(product, TOPIC)
    directory = product.app.publish.topics
    known = directory.topic("orders")
    readable = set()
    cases = [(path, wrong) for path in paths(good) for wrong in WRONG]
    for path, wrong in [*cases, (("name",), "other")]:
        damage(product, TOPIC, with_wrong(good, path, wrong))
        try:
            if directory.topic("orders") != known:
                readable.add(path)
        except UnreadableDocument:
            pass

    assert readable == {("properties", "disableLocalAuth")}  # with `true`
