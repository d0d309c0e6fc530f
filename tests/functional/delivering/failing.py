"""Making an endpoint fail, and looking at what that does to others of its events."""

from __future__ import annotations

from typing import Any

from pushgrid.testing.memory import answered
from shared.delivery.health.availability import Availability
from shared.engine.delivering.deliver import Deliver
from shared.subscriptions.subscription import EventSubscription
from tests.builders import URL, a_delivery, a_message
from tests.functional.deployment import Deployment


def fail(app: Deployment, status: int = 503, events: int = 1) -> None:
    """Let events fail, each in a message of its own, and forget what is stored for them."""
    if not app.directory.known:
        app.subscribe()
    app.pusher.script(URL, answered(status))
    for number in range(events):
        app.run(a_message([a_delivery(100 + number)]))
    forget(app)
    app.pusher.script(URL, answered(200))


def forget(app: Deployment) -> None:
    app.queues.stored.clear()
    app.pusher.sent.clear()


def switch(app: Deployment, **switches: Any) -> None:
    app.set_terms(**switches)


def another_process(app: Deployment) -> None:
    """Go on as a process that knows only what is stored."""
    app.deliver = app.new_process()


def availability(
    app: Deployment, subscription: EventSubscription, process: Deliver | None = None
) -> Availability:
    """Say what a process thinks of an endpoint."""
    process = process or app.deliver
    terms, health = process.parts.terms.of(subscription), process.endpoints.of(subscription).health
    app.loop.run(health.learn(terms))
    return health.availability(terms, app.watched.now())


def claim_probe(app: Deployment, process: Deliver, subscription: EventSubscription) -> bool:
    """Claim the probe for a process."""
    terms = process.parts.terms.of(subscription)
    return app.loop.run(process.endpoints.of(subscription).health.claim_probe(terms))


def pushed(app: Deployment) -> int:
    return len(app.pusher.sent)
