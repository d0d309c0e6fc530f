"""One process of the product: management, publishing and delivering on one storage in memory."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import timedelta

from pushgrid.testing.memory import answered
from shared.adapters.resource_cache import InvalidatingStore, Readers, ResourceCache
from shared.arm.namespace_codec import to_absent_topic, to_namespace_topic
from shared.arm.subscription_codec import to_subscription_in_force
from shared.arm.topic_codec import to_topic
from shared.delivery.messages.message import encode
from shared.engine.ports import Queue
from shared.http import HttpRequest
from tests.functional.deployment import Deployment
from tests.functional.manage.arm_api import CRM, ORDERS, URL, ArmApi, hook
from tests.functional.publish_requests import event

FAILS = answered(500)  # which holds nothing


@dataclass
class Product:
    """Management, publishing and delivering on one storage, as one process has them."""

    app: Deployment
    api: ArmApi

    def publish(self, *numbers: int) -> None:
        key = self.api.json("POST", f"{ORDERS}/listKeys")["key1"]
        answer = self.app.answer(
            HttpRequest(
                method="POST",
                url="https://pushgrid.example/topics/orders/api/events",
                headers={"aeg-sas-key": key, "content-type": "application/json"},
                params={"topic": "orders"},
                body=json.dumps([event(number) for number in numbers]).encode(),
            )
        )
        assert answer.status == 200, answer.body

    def deliver(self) -> list[int]:
        """Deliver every message that waits, due or not; return the numbers that were pushed."""
        pusher = self.api.pusher
        pusher.sent.clear()
        messages = [each for queue in Queue for each in self.app.on(queue)]
        self.app.queues.stored.clear()
        for message in messages:
            (text,) = encode(replace(message, due=None))
            self.app.deliver.run(text.encode())
        return sorted(json.loads(sent.request.body)[0]["data"]["n"] for sent in pusher.sent)


def a_product(app: Deployment) -> Product:
    """A deployment with the topic ``orders``, whose subscription ``crm`` fails."""
    directory = ResourceCache(
        app.resources,
        Readers(to_topic, to_namespace_topic, to_subscription_in_force, to_absent_topic),
        cache_for=timedelta(seconds=5),
        clock=app.clock.monotonic,
    )
    api = ArmApi(resources=app.resources, clock=app.clock)
    api.reconfigure(resources=InvalidatingStore(app.resources, directory))
    app.publish = replace(app.publish, topics=directory, subscriptions=directory)
    parts = app.deliver.parts
    parts = replace(parts, subscriptions=directory, terms=replace(parts.terms, topics=directory))
    app.deliver = replace(app.deliver, parts=parts)
    app.push_with(api.pusher)
    api.json("PUT", ORDERS, {"location": "x"}, status=201)
    api.json("PUT", CRM, hook(expirationTimeUtc="2026-02-09T13:00:00Z"), status=201)
    api.pusher.script(URL, FAILS)
    return Product(app, api)
