"""Rows that can't be read, or have a wrong member, cost no other subscription, and no event."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from pushgrid.testing.memory import answered
from shared.engine.ports import Document, Queue, Resource, Table
from shared.errors import UnreadableDocument
from shared.metrics import Metric
from tests.functional.delivering.product import Product, a_product
from tests.functional.deployment import MINUTE, SECOND, Deployment, Logged
from tests.functional.manage.arm_api import CRM, ORDERS, URL, hook

AUDIT = f"{ORDERS}/eventSubscriptions/audit"
AUDIT_URL = "https://audit.example/hook"
ROW = Table.EVENT_SUBSCRIPTIONS, "orders", "crm"
DAY = timedelta(days=1)
FILTER = {"subjectBeginsWith": "/orders/1"}
DAMAGES = ["no document", "a list", "another shape"]


@pytest.fixture
def product(app: Deployment) -> Product:
    """``crm`` and ``audit``; every endpoint accepts."""
    product = a_product(app)
    product.api.pusher.script(URL, answered(200))
    product.api.json("PATCH", CRM, {"filter": FILTER, "expirationTimeUtc": None}, status=201)
    product.api.json("PUT", AUDIT, hook(AUDIT_URL), status=201)
    product.api.pusher.script(AUDIT_URL, answered(200))
    return product


@pytest.fixture(params=DAMAGES)
def damage(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def spoil(product: Product, damage: str = "no document") -> Resource:
    """Damage the row of ``crm``; return what was there."""
    before = product.app.resources.get(*ROW)
    assert before
    forms: dict[str, Any] = {
        "no document": None,
        "a list": [before.document],
        "another shape": {**before.document, "properties": {"later": True}},
    }
    product.app.resources.damage(*ROW, forms[damage])
    forget(product)
    return before


def put(product: Product, **properties: Any) -> None:
    """Put ``crm``; its endpoint consents, and fails afterwards."""
    product.api.pusher.script(URL)
    product.api.json("PUT", CRM, hook(**properties), status=201)
    product.api.pusher.script(URL, answered(500))


def forget(product: Product) -> None:
    product.app.clock.advance(5 * SECOND)


def deliver(product: Product) -> dict[str, list[int]]:
    """Deliver all that waits; say what each endpoint got."""
    product.deliver()
    got: dict[str, list[int]] = {}
    for each in product.api.pusher.sent:
        number = json.loads(each.request.body)[0]["data"]["n"]
        got.setdefault(each.request.url, []).append(number)
    return got


def test_the_other_subscriptions_are_served_and_its_events_wait_for_their_filter(
    product: Product, damage: str, logged: Logged
) -> None:
    """Publishing answered 500, or left it out: 58 of 58 events were lost."""
    before = spoil(product, damage)

    product.publish(1, 2, 11)

    assert deliver(product) == {AUDIT_URL: [1, 2, 11]}
    assert deliver(product) == {}
    replace_row(product, ROW, before.document)
    assert deliver(product) == {URL: [1, 11]}
    assert product.app.all_stored() == {}
    assert [line["matched"] for line in logged("delivery.matched")] == [2]
    assert product.app.metrics.of(Metric.MATCHED) == {("orders", "audit"): 3, ("orders", "crm"): 2}


def test_the_row_is_named_in_the_log_once_a_minute(product: Product, logged: Logged) -> None:
    spoil(product)
    for _ in range(13):
        product.publish(1)
        forget(product)

    assert len(logged("document.unreadable")) == 2


def test_what_waits_comes_back_every_five_minutes_in_few_messages(product: Product) -> None:
    """They wait on the queue that merges them, so that a day of them is not read each minute."""
    spoil(product)
    for number in range(3):
        product.publish(number)
    deliver(product)

    assert product.app.queues.waits(Queue.WAITING) == [4 * MINUTE] * 3
    product.app.clock.advance(4 * MINUTE)
    product.app.wake.run(product.app.in_a_minute())

    assert product.app.waiting(Queue.RETRIES) == [(MINUTE, [0, 0, 0])]


def test_a_put_repairs_the_row_and_loses_no_event_that_waited_before(
    product: Product, damage: str
) -> None:
    product.api.pusher.script(URL, answered(500))
    product.publish(1)
    deliver(product)
    spoil(product, damage)
    product.publish(12, 2)
    assert deliver(product) == {AUDIT_URL: [12, 2]}

    put(product, filter=FILTER)

    assert sorted(deliver(product)[URL]) == [1, 12]
    put(product)  # also after one more change
    assert sorted(deliver(product)[URL]) == [1, 12]


def test_a_restored_subscription_that_is_created_again_gets_no_earlier_event(
    product: Product,
) -> None:
    spoil(product)
    put(product)
    product.publish(1)
    assert deliver(product)[URL] == [1]

    product.api.call("DELETE", CRM)
    put(product)

    assert URL not in deliver(product)


def test_a_repaired_subscription_gets_nothing_before_its_endpoint_consents(
    product: Product,
) -> None:
    """Its earlier consent can't be read either."""
    other = "https://new.example/"
    spoil(product)
    product.publish(1)
    product.api.pusher.script(other, answered(200))  # no code: the link has to be opened
    product.api.json("PUT", CRM, hook(other), status=201)
    link = product.api.validation_link()

    assert deliver(product) == {AUDIT_URL: [1]}
    product.api.open_link(link)
    forget(product)
    assert deliver(product) == {other: [1]}


def test_deleting_the_row_ends_what_waits(product: Product, damage: str, logged: Logged) -> None:
    spoil(product, damage)
    product.publish(1, 2)
    deliver(product)

    assert product.api.call("DELETE", CRM).status == 204

    assert deliver(product) == {}
    assert product.app.all_stored() == {}
    (line,) = logged("delivery.dropped")
    assert (line["reason"], line["count"]) == ("SubscriptionDeleted", 2)


@pytest.mark.parametrize(
    ("tags", "lives_for"),
    [({}, DAY), ({"deliveryProfile": "ns"}, 7 * DAY)],
    ids=["the default profile", "the topic's tag"],
)
def test_what_is_too_old_for_any_subscription_of_its_topic_becomes_a_record(
    product: Product, logged: Logged, tags: dict[str, str], lives_for: timedelta
) -> None:
    """Which time to live it had can't be known: the longest of the profile counts."""
    product.api.json("PATCH", ORDERS, {"tags": tags}, status=200)
    spoil(product)
    product.publish(1, 2)
    product.app.clock.advance(lives_for - SECOND)
    deliver(product)
    kept = [len(each.deliveries) for each in product.app.on(Queue.WAITING)]

    product.app.clock.advance(SECOND)
    deliver(product)

    assert (kept, product.app.all_stored()) == ([2], {})
    (record,) = map(json.loads, product.app.dead_letters.poison.values())
    assert [each["data"]["n"] for each in record["events"]] == [1, 2]
    assert record["reason"] == "its event subscription can't be read"
    assert [line["recorded"] for line in logged("delivery.unreadable")] == [0, 2]


def test_a_jump_makes_nothing_too_old(product: Product) -> None:
    spoil(product)
    product.publish(1, 2)
    product.app.clock.jump(8 * DAY)

    deliver(product)

    assert [len(each.deliveries) for each in product.app.on(Queue.WAITING)] == [2]
    assert product.app.dead_letters.poison == {}


def test_what_cannot_be_recorded_is_kept(product: Product) -> None:
    spoil(product)
    product.publish(1)
    product.app.clock.advance(DAY)
    product.app.dead_letters.fail_next("write_poison")

    deliver(product)
    deliver(product)

    assert (len(product.app.dead_letters.poison), product.app.all_stored()) == (1, {})


def test_an_end_that_cannot_be_confirmed_is_none(product: Product) -> None:
    """The cache still knows the subscription; its row was damaged meanwhile."""
    product.api.pusher.script(URL, answered(400))
    product.publish(1)
    product.app.resources.damage(*ROW, None)

    deliver(product)

    assert product.app.all_stored() == {Queue.RETRIES: 1}


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
def full(product: Product) -> Product:
    """Give ``crm`` all that a subscription can have."""
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
    product.api.pusher.script(URL, answered(200))
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


def replace_row(product: Product, place: tuple[Table, str, str], document: Document) -> None:
    product.app.resources.damage(*place, document)
    forget(product)


@pytest.mark.slow
def test_an_event_reaches_the_subscription_or_waits_for_it(full: Product) -> None:
    """Publishing answered 500, pushed to no URL, never ended, or forgot the subscription."""
    good = stored(full, ROW)
    odd: list[object] = []
    cases = [(path, wrong) for path in paths(good) for wrong in WRONG]
    cases += [((name,), "x") for name in ("name", "topicName")]
    for path, wrong in cases:
        replace_row(full, ROW, with_wrong(good, path, wrong))
        full.api.pusher.sent.clear()
        full.app.queues.stored.clear()
        full.publish(1)
        full.deliver()
        urls = sorted(each.request.url for each in full.api.pusher.sent)
        waits = len(full.app.on(Queue.WAITING))
        if (urls, waits) not in [([AUDIT_URL, URL], 0), ([AUDIT_URL], 1)]:
            odd.append((path, wrong, urls, waits))

    assert odd == []
    assert len(cases) > 400


def test_a_topic_is_whole_or_can_t_be_read(full: Product) -> None:
    """Keys that are no text made a publish request a 500, another name lost its events."""
    good = stored(full, TOPIC)
    directory = full.app.publish.topics
    known = directory.topic("orders")
    readable = set()
    cases = [(path, wrong) for path in paths(good) for wrong in WRONG]
    for path, wrong in [*cases, (("name",), "other")]:
        replace_row(full, TOPIC, with_wrong(good, path, wrong))
        try:
            if directory.topic("orders") != known:
                readable.add(path)
        except UnreadableDocument:
            pass

    assert readable == {("properties", "disableLocalAuth")}  # with `true`
