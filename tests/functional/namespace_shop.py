"""The namespace ``shop`` with its topic ``Orders``: what its publishers send, who subscribes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from shared.events.topic import InputSchema
from shared.http import HttpAnswer, HttpRequest
from shared.subscriptions.subscription import DeliverySchema, EventSubscription
from tests.builders import a_topic, compact
from tests.functional.deployment import Deployment

GROUP = "/subscriptions/s1/resourceGroups/rg/providers/Microsoft.EventGrid"
ID = f"{GROUP}/namespaces/shop/topics/Orders"
KEYS = ("a2V5MQ==", "a2V5Mg==", "a2V5Mw==", "a2V5NA==")
BATCH = "application/cloudevents-batch+json; charset=utf-8"
STRUCTURED = "application/cloudevents+json; charset=utf-8"


def deploy_orders(app: Deployment) -> None:
    """Deploy the topic, which keeps events for two days; two of the keys are its namespace's."""
    keys = {"key1": KEYS[0], "key2": KEYS[1]}
    app.directory.namespaces["shop"] = {"keys": keys, "properties": {}}
    app.directory.topics["shop.orders"] = a_topic(
        name="shop.Orders",
        arm_id=ID,
        input_schema=InputSchema.CLOUD_EVENTS,
        keys=KEYS,
        profile="ns",
        retention=timedelta(days=2),
    )


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
    return app.answer(request(compact(list(events)).encode()))
