"""Answers which event subscriptions of a topic an event matches, and which condition says no."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from shared.arm.arm_json import answer
from shared.arm.subscription_codec import to_subscription_in_force
from shared.engine.manage.call import Call, ManagePorts
from shared.engine.manage.subscriptions import Subscriptions, listed
from shared.engine.ports import PROCESSES, Document, Table
from shared.errors import UNREADABLE
from shared.events.publish_request import read_events
from shared.events.schema_rules import Arrival
from shared.events.topic import InputSchema, Topic
from shared.http import HttpAnswer, HttpRequest
from shared.subscriptions.event_values import EventValues
from shared.subscriptions.request_limits import limits_document
from shared.subscriptions.subscription import EventSubscription


def matches_of(
    form: Subscriptions, to_topic: Callable[[Document], Topic]
) -> Callable[[ManagePorts, Call], HttpAnswer]:
    """Return the handler for topics of one kind; *to_topic* reads a stored one."""

    def answer_matches(ports: ManagePorts, call: Call) -> HttpAnswer:
        """
        Match events, in the form of a publish request, and publish none.

        Each subscription has ``matched``, how many of them it would get now, and else ``why`` not:
        of the event that came closest; ``passed`` is how many conditions held. ``limits`` are those
        of its requests.
        """
        now = ports.clock.now()
        topic = to_topic(form.topics.named(ports, call).document)
        events = read_events(_publish_request(call, topic), topic, Arrival(now, ports.new_id()))
        values = [EventValues(each) for each in events]
        count = cache(lambda: len(ports.resources.list(Table.TOPICS, PROCESSES)))
        found = [
            _match(each.document, values, now, count)
            for each in listed(ports, form.topic(ports, call))
        ]
        return answer(200, {"events": len(events), "value": found})

    return answer_matches


def _publish_request(call: Call, topic: Topic) -> HttpRequest:
    form = "application/json"
    if topic.input_schema is InputSchema.CLOUD_EVENTS:
        is_batch = call.body.lstrip().startswith(b"[")
        form = f"application/cloudevents{'-batch' if is_batch else ''}+json"
    return HttpRequest(
        method="POST",
        url=call.path,
        headers={"content-type": form},
        params=call.names,
        body=call.body,
    )


def _match(
    document: Document, values: Sequence[EventValues], now: datetime, processes: Callable[[], int]
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "subscription": document["name"],
        "matched": 0,
        "passed": 0,
        "why": None,
        "limits": {},
    }
    try:
        subscription = to_subscription_in_force(document)
    except UNREADABLE:
        return {**found, "why": "its row can't be read"}
    if why := _inactive(subscription, now):
        return {**found, "why": why}
    found["limits"] = limits_document(subscription.limits, subscription.rate, processes)
    refusals = [each for one in values if (each := subscription.filter.refusal(one))]
    matched = len(values) - len(refusals)
    closest = max(refusals, default=None)
    if matched or closest is None:
        return {**found, "matched": matched}
    return {**found, "passed": closest.passed, "why": closest.why}


def _inactive(subscription: EventSubscription, now: datetime) -> str | None:
    if not subscription.has_consented:
        return "its endpoint has not completed the validation handshake"
    return "it has expired" if subscription.is_expired(now) else None
