"""One process of the product: management, publishing and delivering on one storage in memory."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, replace
from datetime import timedelta

from pushgrid.testing.memory import answered, off_loop
from shared.adapters.threads import SystemThreads
from shared.engine.caching.resource_cache import InvalidatingStore, ResourceCache
from shared.engine.delivering.deliver import Deliver
from shared.engine.ports import Queue
from shared.tasks import Tasks
from tests.builders import encode
from tests.functional.delivering.failing import play
from tests.functional.deployment import Deployment
from tests.functional.manage.arm_api import CRM, ORDERS, URL, ArmApi, hook
from tests.functional.publish_requests import event, publish

FAILS = answered(500)  # which holds nothing


@dataclass
class Product:
    """Management, publishing and delivering on one storage, as one process has them."""

    app: Deployment
    api: ArmApi

    def publish(self, *numbers: int) -> None:
        key = self.api.json("POST", f"{ORDERS}/listKeys")["key1"]
        answer = publish(self.app, *map(event, numbers), aeg_sas_key=key)
        assert answer.status == 200, answer.body

    def deliver(self) -> list[int]:
        """Deliver every message that waits, due or not; return the numbers that were pushed."""
        pusher = self.api.pusher
        pusher.sent.clear()
        messages = [each for queue in Queue for each in self.app.on(queue)]
        self.app.queues.stored.clear()
        for message in messages:
            (text,) = encode(replace(message, due=None))
            self.app.work(text)
        return sorted(json.loads(sent.request.body)[0]["data"]["n"] for sent in pusher.sent)

    def play(self, seconds: float, *instances: Deliver) -> list[tuple[int, float]]:
        """
        Deliver what becomes due in so many seconds, by *instances* in turn.

        Return the number of each event that was pushed, and the seconds until then.
        """
        app, pusher, began_at = self.app, self.api.pusher, self.app.clock.now()
        pusher.sent.clear()
        turns = itertools.cycle(instances or (app.deliver,))
        play(app, timedelta(seconds=seconds), lambda text: app.work(text, by=next(turns)))
        return [
            (event["data"]["n"], (sent.at - began_at).total_seconds())
            for sent in pusher.sent
            for event in json.loads(sent.request.body)
        ]

    def another_instance(self) -> Deliver:
        """Return the delivering of an instance that knows nothing yet."""
        directory = _directory(self.app)
        parts = self.app.deliver.judge
        terms = replace(parts.terms, topics=directory)
        return self.app.new_process(
            replace(parts, subscriptions=directory, topics=directory, terms=terms)
        )


def a_product(app: Deployment) -> Product:
    """A deployment with the topic ``orders``, whose subscription ``crm`` fails."""
    directory = _directory(app)
    api = ArmApi(app.clock, app.store)
    api.reconfigure(resources=InvalidatingStore(app.resources, directory))
    app.publish = replace(app.publish, topics=directory, subscriptions=directory)
    parts = app.deliver.judge
    terms = replace(parts.terms, topics=directory)
    parts = replace(parts, subscriptions=directory, topics=directory, terms=terms)
    app.deliver = app.new_process(parts)
    app.push_with(api.pusher)
    api.json("PUT", ORDERS, {"location": "x"}, status=201)
    api.json("PUT", CRM, hook(expirationTimeUtc="2026-02-09T13:00:00Z"), status=201)
    api.pusher.script(URL, FAILS)
    return Product(app, api)


def _directory(app: Deployment) -> ResourceCache:
    return ResourceCache(
        app.resources,
        cache_for=timedelta(seconds=5),
        threads=SystemThreads(app.clock.monotonic),
        off_loop=off_loop,
        tasks=Tasks(),
    )
