"""The fixture `pushgrid`: what docs/testing.md does not show."""

from __future__ import annotations

import asyncio
import json
import random
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import requests
from azure.core.credentials import AzureKeyCredential
from azure.core.messaging import CloudEvent
from azure.eventgrid import EventGridPublisherClient

from pushgrid.testing import (
    Attempt,
    Pushgrid,
    Refused,
    Request,
    StorageAccount,
    Subscriber,
    Topic,
    Unsettled,
)
from pushgrid.testing.driven_app import ACCOUNT_ID

PLACED = {"eventType": "Shop.OrderPlaced", "subject": "/orders/17"}
ADVANCED = {"operatorType": "BoolEquals", "key": "data.paid", "value": True}


@pytest.fixture
def orders(pushgrid: Pushgrid) -> Topic:
    return pushgrid.topic("orders")


@pytest.mark.parametrize("namespace", [None, "shop"])
def test_a_misspelt_property_is_refused(pushgrid: Pushgrid, namespace: str | None):
    crm = pushgrid.topic("orders", namespace=namespace).subscribe("crm")
    policy = {"maxDeliveryAtempts": 2}
    push = {"deliveryConfiguration": {"deliveryMode": "Push", "push": policy}}

    with pytest.raises(TypeError, match="a topic has no property inputShema"):
        pushgrid.topic("invoices", namespace=namespace, inputShema="CloudEventSchemaV1_0")
    with pytest.raises(TypeError, match=r"\.maxDeliveryAtempts \(did you mean maxDelivery"):
        crm.update(**push if namespace else {"retryPolicy": policy})


IDENTITY = {"identity": {"type": "SystemAssigned"}}


@pytest.mark.parametrize(
    ("namespace", "given"),
    [
        (None, {"deliveryWithResourceIdentity": IDENTITY | {"destination": {}}}),
        (None, {"deadLetterWithResourceIdentity": IDENTITY}),
        (
            "shop",
            {
                "deliveryConfiguration": {
                    "push": {"deadLetterDestinationWithResourceIdentity": IDENTITY}
                }
            },
        ),
    ],
)
def test_destinations_may_be_given_with_an_identity(
    pushgrid: Pushgrid, namespace: str | None, given: dict[str, Any]
):
    orders = pushgrid.topic("orders", namespace=namespace)
    crm = orders.subscribe("crm", answers=[400], **given)

    orders.publish({"type": "Shop.Paid"} if namespace else PLACED)
    pushgrid.advance(minutes=10)

    assert len(crm.dead_letters) == 1


def test_a_timeout_takes_its_time_but_not_that_of_others(pushgrid: Pushgrid, orders: Topic):
    crm = orders.subscribe("crm", answers=["timeout", "refused", 200])
    erp = orders.subscribe("erp")

    orders.publish(PLACED)
    assert (pushgrid.now - crm.attempts[0].at).total_seconds() == 30
    pushgrid.advance(minutes=2)

    assert [each.after for each in crm.attempts] == [0, 40, 70]
    assert [each.after for each in erp.attempts] == [0]


def test_a_handler_may_run_a_loop_of_its_own(orders: Topic):
    async def handle() -> int:
        await asyncio.sleep(0)
        return 200

    crm = orders.subscribe("crm", handler=lambda _: asyncio.run(handle()))

    orders.publish(PLACED)

    assert len(crm.received) == 1


def test_a_handler_that_ends_the_test_ends_it(orders: Topic):
    orders.subscribe("crm", handler=lambda _: pytest.fail("no such order"))

    with pytest.raises(pytest.fail.Exception, match="no such order"):
        orders.publish(PLACED)


def test_a_document_serves_several_subscriptions(orders: Topic):
    document: dict[str, Any] = {"destination": {"properties": {"maxEventsPerBatch": 1}}}
    both = [orders.subscribe(name, **document) for name in ("crm", "erp")]

    orders.publish(PLACED)

    assert [len(each.received) for each in both] == [1, 1]
    assert document == {"destination": {"properties": {"maxEventsPerBatch": 1}}}


def test_timers_run_at_their_times_and_long_waits_end_on_time(pushgrid: Pushgrid, orders: Topic):
    """A dead letter is due after five minutes, and its timer runs every five minutes."""
    crm = orders.subscribe("crm", answers=[400])
    erp = orders.subscribe("erp", answers=[500])
    pushgrid.advance(seconds=17)

    orders.publish(PLACED)
    pushgrid.advance(hours=5)

    (blob,) = pushgrid.arm("GET", f"{crm.path}/deadLetters")["value"]
    assert blob["writtenAt"] == "2026-02-09T12:10:00.0000000Z"
    assert [each.after - 17 for each in erp.attempts] == [
        0, 10, 40, 100, 400, 1000, 2800, 6400, 17200,
    ]  # fmt: skip


def test_a_test_runs_alike_each_time(pushgrid: Pushgrid, orders: Topic):
    def play(app: Pushgrid, topic: Topic) -> list[object]:
        app.randomize(seed=7)
        subscribers = [topic.subscribe(name, answers=[500]) for name in ("crm", "erp")]
        topic.publish([PLACED, PLACED])
        app.advance(hours=30)
        letters = [letter for each in subscribers for letter in each.dead_letters]
        return [*(each.attempts for each in subscribers), letters, app._app.dead_letters.blobs]

    other = Pushgrid(ExitStack())
    random.seed(1)
    first = play(pushgrid, orders)
    random.seed(2)

    assert play(other, other.topic("orders")) == first


def test_jitter_makes_retries_later(pushgrid: Pushgrid, orders: Topic):
    crm = orders.subscribe("crm", answers=[500])
    pushgrid.randomize(seed=7)

    orders.publish(PLACED)
    pushgrid.advance(minutes=2)

    waits = [each.after for each in crm.attempts]
    assert all(known < found for known, found in zip((10, 40, 100), waits[1:], strict=True))


def test_a_failed_assertion_of_a_handler_fails_the_test(pushgrid: Pushgrid, orders: Topic):
    def handler(request: Request) -> None:
        assert request.events[0]["subject"] == "/orders/18"

    crm = orders.subscribe("crm", handler=handler)

    with pytest.raises(AssertionError, match="/orders/18"):
        orders.publish(PLACED)
    with pytest.raises(AssertionError, match="/orders/18"):
        pushgrid.advance(seconds=10)
    assert [each.status for each in crm.attempts] == [500, 500]


def test_what_a_handler_raises_is_retried(pushgrid: Pushgrid, orders: Topic):
    def handler(request: Request) -> None:
        if request.headers["aeg-delivery-count"] == "0":
            raise KeyError("total")

    crm = orders.subscribe("crm", handler=handler)
    orders.publish(PLACED)
    pushgrid.advance(seconds=10)

    assert [(each.status, repr(each.error)) for each in crm.attempts] == [
        (500, "KeyError('total')"),
        (200, "None"),
    ]


def test_an_endless_loop_of_events_is_an_error(pushgrid: Pushgrid, orders: Topic):
    pushgrid._app.max_steps = 50
    orders.subscribe("loop", handler=lambda _: orders.publish(PLACED))

    with pytest.raises(Unsettled, match=r"After 50 deliveries .* \(1 on 'deliveries'\)"):
        orders.publish(PLACED)


def test_a_handler_can_t_advance_the_clock(pushgrid: Pushgrid, orders: Topic):
    crm = orders.subscribe("crm", handler=lambda _: pushgrid.advance(minutes=1))

    orders.publish(PLACED)

    assert "A handler can't advance the clock" in str(crm.attempts[0].error)


class Response:
    """What test clients of web frameworks return."""

    status_code = 429
    headers = {"Retry-After": "90"}  # noqa: RUF012
    data = b"later"


@pytest.mark.parametrize(
    ("answer", "status", "received"),
    [
        (Response(), 429, 0),
        (429, 429, 0),
        ((429, {}), 429, 0),
        ((429, {}, b"later"), 429, 0),
        (204, 204, 1),  # as any success
    ],
)
def test_the_forms_of_an_answer(orders: Topic, answer: Any, status: int, received: int):
    crm = orders.subscribe("crm", handler=lambda _: answer)

    orders.publish(PLACED)

    assert [each.status for each in crm.attempts] == [status]
    assert len(crm.received) == received


async def answer_later(_: Request) -> int:
    return 200


@pytest.mark.parametrize("answer", ["time-out", 99, 600, (200,), {}])
def test_what_is_no_answer_fails_the_test(orders: Topic, answer: Any):
    orders.subscribe("crm", handler=lambda _: answer)

    with pytest.raises(AssertionError, match=r"handler: .* is no answer"):
        orders.publish(PLACED)


class Later:
    """A handler that is an object."""

    async def __call__(self, request: Request) -> int:
        return await answer_later(request)


NOT_AWAITED = (
    "handler: answer_later is an async function, and handlers are not awaited: use "
    "handler=lambda request: asyncio.run(answer_later(request))"
)


def test_a_handler_that_must_be_awaited_fails_the_test(orders: Topic):
    hidden: Any = lambda request: answer_later(request)  # noqa: E731, PLW0108 - not seen before
    orders.subscribe("crm", handler=hidden)

    with pytest.raises(AssertionError, match=f"^{re.escape(NOT_AWAITED)}$"):
        orders.publish(PLACED)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"answers": 503}, "answers=503: give a list, as in answers=[503]"),
        ({"answers": "timeout"}, "answers='timeout': give a list, as in answers=['timeout']"),
        ({"handler": 200}, "handler=200 is no function of a request"),
        ({"handler": answer_later}, NOT_AWAITED),
        ({"handler": Later()}, "is an async function, and handlers are not awaited"),
        ({"handler": lambda _: 200, "answers": [503]}, "answers and handler exclude each other"),
        ({"filters": {}}, "has no property filters (did you mean filter?)"),
        (
            {"filter": {"subjectBeginWith": "/"}},
            "no property filter.subjectBeginWith (did you mean",
        ),
        (
            {"filter": {"advancedFilters": [ADVANCED, ADVANCED | {"not": True}]}},
            "no property filter.advancedFilters[1].not",
        ),
        ({"retry_policy": {}}, "has no property retry_policy (did you mean retryPolicy?)"),
    ],
)
def test_a_wrong_argument_is_refused_at_once(orders: Topic, given: dict[str, Any], words: str):
    with pytest.raises(TypeError, match=re.escape(words)):
        orders.subscribe("crm", **given)


@pytest.mark.parametrize(
    ("arguments", "units", "words"),
    [
        ((5,), {}, "advance(5): name the unit, as in advance(minutes=5)"),
        ((), {"minute": 5}, "advance has no unit minute: did you mean minutes?"),
        ((), {"years": 1}, "advance has no unit years: there are weeks, days, hours, minutes"),
        ((), {"minutes": -5}, "advance: -300 s are in the past"),
    ],
)
def test_what_is_no_time_to_come_is_refused(
    pushgrid: Pushgrid, arguments: tuple[Any, ...], units: dict[str, Any], words: str
):
    with pytest.raises((TypeError, ValueError), match=re.escape(words)):
        pushgrid.advance(*arguments, **units)


@pytest.mark.parametrize("kind", [Pushgrid, Topic, StorageAccount, Subscriber, Attempt, Request])
def test_what_is_public_is_documented(pushgrid: Pushgrid, orders: Topic, kind: type):
    """In a table of docs/testing.md; nothing else is public, and nothing else is in the table."""
    crm = orders.subscribe("crm")
    orders.publish(PLACED)
    (attempt,) = crm.attempts
    examples = (pushgrid, orders, pushgrid.storage_account, crm, attempt, attempt.request)
    (example,) = (each for each in examples if type(each) is kind)
    text = (Path(__file__).parents[3] / "docs/testing.md").read_text("utf-8")
    (row,) = re.findall(rf"^\| `{kind.__name__}` \| (.*) \|$", text, re.MULTILINE)

    found = {each for each in {*vars(example), *dir(kind)} if not each.startswith("_")}

    assert found == set(re.findall(r"`(\w+)[^`]*`", row.partition(" | ")[0]))


@pytest.mark.parametrize("answers", [[], ["time-out"], [200, 99], [answer_later]])
def test_a_script_has_only_answers(orders: Topic, answers: list[Any]):
    crm = orders.subscribe("crm")

    with pytest.raises(ValueError, match="answer"):
        orders.subscribe("erp", answers=answers)
    with pytest.raises(ValueError, match="answer"):
        crm.answer(*answers)


def test_a_refused_event_is_an_error(orders: Topic):
    with pytest.raises(Refused, match="eventType") as refused:
        orders.publish({"subject": "/orders/17"})

    assert refused.value.status == 400


def test_an_endpoint_that_does_not_consent_gets_no_subscription(orders: Topic):
    with pytest.raises(Refused, match="validation"):
        orders.subscribe("crm", handler=lambda _: 500, answers_handshake=True)


def test_a_subscription_is_changed_and_deleted(pushgrid: Pushgrid, orders: Topic):
    crm = orders.subscribe("crm", answers=[500])
    crm.update(filter={"subjectBeginsWith": "/orders/"})

    orders.publish([PLACED, PLACED | {"subject": "/returns/1"}])
    pushgrid.advance(seconds=10)
    crm.delete()
    pushgrid.advance(days=2)

    assert [each.events[0]["subject"] for each in crm.attempts] == ["/orders/17"] * 2
    assert crm.dead_letters == []


def test_subscribers_of_one_name_have_dead_letters_of_their_own(pushgrid: Pushgrid, orders: Topic):
    mine = orders.subscribe("crm", answers=[400])
    other = pushgrid.topic("returns").subscribe("crm", answers=[400])

    orders.publish(PLACED)
    pushgrid.advance(minutes=10)

    assert (len(mine.dead_letters), other.dead_letters) == (1, [])


@pytest.mark.parametrize(("profile", "wait"), [("2017", 10), ("2023", 300)])
def test_a_topic_has_the_rules_of_its_edition(pushgrid: Pushgrid, profile: str, wait: int):
    """Later editions wait five minutes after 404; the first knows no dead letters."""
    crm = pushgrid.topic("orders", profile=profile).subscribe("crm", answers=[404, 200])

    crm.topic.publish(PLACED)
    pushgrid.advance(hours=1)

    (event,) = crm.timeline()["value"]
    assert event["attempts"][0]["status"] == 404
    assert [each.after for each in crm.attempts] == [0, wait]


def test_a_client_of_a_namespace(pushgrid: Pushgrid):
    orders = pushgrid.topic("orders", namespace="shop")
    crm = orders.subscribe("crm")

    with EventGridPublisherClient(
        orders.endpoint, AzureKeyCredential(orders.key), namespace_topic="orders"
    ) as client:
        client.send(CloudEvent(source="/shop", type="Shop.OrderPlaced", data={"total": 3}))
    orders.publish(CloudEvent(source="/shop", type="Shop.OrderPlaced", data={"total": 4}))

    assert [event["data"]["total"] for event in crm.received] == [3, 4]


def test_whoever_has_the_link_can_validate(pushgrid: Pushgrid, orders: Topic):
    links: list[str] = []

    def handler(request: Request) -> int:
        if request.headers["aeg-event-type"] == "SubscriptionValidation":
            links.append(request.events[0]["data"]["validationUrl"])
        return 200

    crm = orders.subscribe("crm", handler=handler, answers_handshake=True)
    assert pushgrid.url
    answer = requests.get(links[0], timeout=5)
    orders.publish(PLACED)

    assert (answer.status_code, len(crm.received)) == (200, 1), answer.text


def test_other_requests_are_sent_as_ever(pushgrid: Pushgrid):
    real = requests.Session().get_adapter("https://example.com")

    assert pushgrid.url
    assert type(requests.Session().get_adapter("https://example.com/")) is type(real)
    assert type(requests.Session().get_adapter(f"{pushgrid.url}/")) is not type(real)
    assert json.loads(requests.get(f"{pushgrid.url}/subscriptions", timeout=5).text)["error"]


def test_a_queue_is_a_subscriber_whose_answers_are_its_storages(pushgrid: Pushgrid):
    queue = {"resourceId": ACCOUNT_ID, "queueName": "inbox"}
    destination = {"endpointType": "StorageQueue", "properties": queue}
    orders = pushgrid.topic("orders")
    inbox = orders.subscribe("inbox", destination=destination, answers=[404, 200])

    orders.publish(PLACED)
    pushgrid.advance(minutes=5)

    assert [(each.after, each.status) for each in inbox.attempts] == [(0, 404), (300, 200)]
    assert inbox.attempts[1].request.url == f"{ACCOUNT_ID}/queueServices/default/queues/inbox"
