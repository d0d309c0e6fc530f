"""A manual pause: events wait, and go on when it is resumed. Design §2, Health."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pushgrid.testing.memory import START, answered
from shared.engine.ports import Queue, Table
from shared.subscriptions.subscription import Pause
from tests.builders import URL as CRM_URL
from tests.builders import a_delivery, a_message
from tests.functional.delivering.failing import pushed
from tests.functional.delivering.product import Product, a_product
from tests.functional.deployment import MINUTE, SECOND, Deployment, Logged
from tests.functional.manage.arm_api import CRM, URL

PAUSE = Pause(START, "the admin key")
WHY = "paused since 2026-02-09T12:00:00.0000000Z by the admin key"


@pytest.fixture
def product(app: Deployment) -> Product:
    """Two subscriptions of a topic, whose endpoints accept everything; ``crm`` has no batches."""
    product = a_product(app)
    product.api.pusher.script(URL, answered(200))
    return product


def act(product: Product, action: str) -> None:
    assert product.api.json("POST", f"{CRM}/{action}")["changed"]


@pytest.mark.parametrize("profile", ["latest", "2017"])
def test_what_meets_a_pause_waits_and_is_no_attempt(
    app: Deployment, logged: Logged, profile: str
) -> None:
    """Also in an edition without holds."""
    app.set_terms(default_profile=profile)
    app.subscribe(pause=PAUSE)
    app.clock.advance(90 * SECOND)

    app.run(a_message([a_delivery(1)]))

    assert pushed(app) == 0
    assert app.waiting(Queue.WAITING) == [(30 * SECOND, [1])]
    assert app.on(Queue.WAITING)[0].deliveries == (a_delivery(1),)
    line = logged("delivery.run")[-1]
    assert (line["held"], line["held_because"]) == (1, WHY)
    assert app.resources.list(Table.ENDPOINT_HEALTH, "orders") == []


@pytest.mark.parametrize(
    ("paused_for", "due_in"),
    [(0, 1), (30, 30), (120, 120), (86_400, 120)],
)
def test_what_waits_returns_after_as_long_as_the_pause_has_lasted(
    app: Deployment, paused_for: int, due_in: int
) -> None:
    app.subscribe(pause=Pause(START - paused_for * SECOND, PAUSE.by))

    app.run(a_message())

    [message] = [*app.on(Queue.RETRIES), *app.on(Queue.WAITING)]
    assert message.due == app.clock.now() + due_in * SECOND


@pytest.mark.parametrize("is_next_message", [True, False], ids=["another message", "a look"])
def test_a_pause_lets_a_push_end_and_keeps_what_stands_behind_it(
    app: Deployment, logged: Logged, *, is_next_message: bool
) -> None:
    """Whether a message that has come since tells of it, or a look within a second."""
    app.limit_pushes(1)
    subscription = app.subscribe()
    held = app.hold("e-0")
    task = app.begin(a_message([a_delivery(0), a_delivery(1)]))
    app.directory.add(replace(subscription, pause=PAUSE))

    if is_next_message:
        app.begin(a_message([a_delivery(2)]))
    else:
        app.loop.advance(2 * SECOND)  # to look, and to store what follows
        assert app.on(Queue.RETRIES)[0].deliveries == (a_delivery(1),)
        assert not task.done()
    held.let_go()
    app.loop.advance(SECOND)

    assert task.done()
    assert [json.loads(sent.request.body)[0]["id"] for sent in app.pusher.sent] == ["e-0"]
    assert logged("delivery.run")[-1]["held_because"] == WHY
    assert app.on(Queue.RETRIES)[0].deliveries == (a_delivery(1),)


def test_an_end_is_confirmed_whether_paused_or_not(app: Deployment) -> None:
    """The push was under way when the pause began: its outcome counts as ever."""
    subscription = app.subscribe()
    app.directory.change(replace(subscription, pause=PAUSE))
    app.pusher.script(CRM_URL, answered(413))

    app.run(a_message())

    assert app.all_stored() == {}


def test_a_pause_claims_no_probe(app: Deployment) -> None:
    subscription = app.subscribe()
    app.pusher.script(CRM_URL, answered(503), answered(200))
    app.run(a_message())
    app.directory.add(replace(subscription, pause=PAUSE))
    app.clock.advance(MINUTE)

    app.run(a_message([a_delivery(1)]))

    assert pushed(app) == 1
    [row] = app.resources.list(Table.ENDPOINT_HEALTH, "orders")
    assert row.document["hold"]["turn"] == 0


@pytest.mark.slow
def test_all_that_was_published_during_a_pause_is_delivered_paced_after_it(
    product: Product,
) -> None:
    """Also what waited for its retry. One instance has paused it, and another delivers as well."""
    app, other = product.app, product.another_instance()
    product.publish(0)
    assert product.play(1, other) == [(0, 0.0)]
    product.api.pusher.script(URL, answered(500), answered(200))
    product.publish(1)
    assert product.play(1, app.deliver) == [(1, 0.0)]  # Its retry is due in 10 s.

    act(product, "pause")
    assert product.play(6, app.deliver, other) == []  # Now every instance knows.
    for number in range(2, 100):
        product.publish(number)
        assert product.play(2, app.deliver, other) == []
    act(product, "resume")
    found = product.play(300, app.deliver, other)

    assert sorted(number for number, _ in found) == list(range(1, 100))
    assert app.all_stored() == {}


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_a_change_keeps_the_pause_and_a_new_endpoint_gets_what_waited(
    product: Product, method: str
) -> None:
    other = "https://other.example/hook"
    act(product, "pause")
    product.publish(1)
    assert product.play(1) == []
    changed = {"endpointType": "WebHook", "properties": {"endpointUrl": other}}
    body = {"destination": changed}
    product.api.json(method, CRM, {"properties": body} if method == "PUT" else body, status=201)
    product.api.pusher.script(other, answered(200))

    assert product.play(60) == []
    act(product, "resume")

    assert [number for number, _ in product.play(200)] == [1]
    assert product.api.pusher.sent[-1].request.url == other


def test_a_subscription_made_anew_is_not_paused(product: Product) -> None:
    act(product, "pause")
    product.publish(1)
    product.api.call("DELETE", CRM)
    body = {"destination": {"endpointType": "WebHook", "properties": {"endpointUrl": URL}}}
    product.api.pusher.script(URL)
    product.api.json("PUT", CRM, {"properties": body}, status=201)
    product.api.pusher.script(URL, answered(200))

    product.publish(2)

    assert [number for number, _ in product.play(600)] == [2]
