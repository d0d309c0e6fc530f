"""A subscription's life from its creation by the management API to what waits when it ends."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from pushgrid.testing.memory import answered
from shared.metrics import Metric
from tests.functional.delivering.product import Product, a_product
from tests.functional.deployment import Deployment, Logged
from tests.functional.manage.arm_api import CRM, ORDERS, URL, ArmApi, hook

HOUR = timedelta(hours=1)


@pytest.fixture
def product(app: Deployment) -> Product:
    return a_product(app)


@pytest.mark.parametrize(
    "end",
    [
        lambda api: api.call("DELETE", CRM),
        lambda api: api.call("DELETE", ORDERS),
        lambda api: (api.call("DELETE", CRM), api.json("PUT", CRM, hook(), status=201)),
    ],
    ids=["deleted", "with its topic", "and created again"],
)
def test_what_waits_for_a_deleted_subscription_is_dropped_counted_and_not_pushed(
    product: Product, logged: Logged, end: Callable[[ArmApi], object]
) -> None:
    product.publish(1, 2)
    assert product.deliver() == [1, 2]
    product.api.pusher.script(URL)

    end(product.api)

    assert product.deliver() == []
    assert product.app.all_stored() == {}
    (line,) = logged("delivery.dropped")
    assert (line["reason"], line["count"]) == ("SubscriptionDeleted", 2)
    assert sum(product.app.metrics.of(Metric.DROPPED).values()) == 2


def test_an_expired_subscription_gets_nothing_more(product: Product, logged: Logged) -> None:
    product.publish(1, 2)
    product.app.clock.advance(HOUR - timedelta(seconds=1))
    assert product.deliver() == [1, 2]

    product.app.clock.advance(timedelta(seconds=1))
    product.publish(3)

    assert product.deliver() == []
    assert product.app.all_stored() == {}
    (line,) = logged("delivery.dropped")
    assert (line["reason"], line["count"]) == ("SubscriptionExpired", 2)
    assert logged("event.published")[-1]["unmatched"] == 1
    assert product.api.json("GET", CRM)["name"] == "crm"


def test_what_is_published_before_the_consent_is_not_for_the_endpoint(
    product: Product, logged: Logged
) -> None:
    product.api.call("DELETE", CRM)
    product.api.pusher.script(URL, answered(200))
    product.api.json("PUT", CRM, hook(), status=201)
    opened = product.api.validation_link()
    product.publish(1)
    assert logged("event.published")[-1]["unmatched"] == 1
    assert product.app.all_stored() == {}

    product.api.open_link(opened)
    product.publish(2)

    assert product.deliver() == [2]


def test_an_update_that_awaits_its_consent_costs_no_event(product: Product) -> None:
    other = "https://other.example/hook"
    product.api.pusher.script(other, answered(200))
    product.publish(1)
    product.api.json("PUT", CRM, hook(other), status=201)
    opened = product.api.validation_link()
    product.publish(2)

    assert product.deliver() == [1, 2]
    assert {sent.request.url for sent in product.api.pusher.sent} == {URL}
    product.api.open_link(opened)
    assert product.deliver() == [1, 2]
    assert {sent.request.url for sent in product.api.pusher.sent} == {other}
    assert product.app.all_stored() == {}
