"""Answers what would happen to an event: which subscriptions match, and when it is attempted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from shared.arm.arm_json import answer
from shared.arm.consent import in_force
from shared.arm.subscription_codec import pending_consent, to_subscription_in_force
from shared.arm.subscription_warnings import subscription_warnings
from shared.delivery.forecast import forecast
from shared.engine.keeping.deployment_terms import DeploymentTerms
from shared.engine.manage.call import Call
from shared.engine.manage.subscriptions import Subscriptions
from shared.engine.ports import PROCESSES, Document, Table
from shared.errors import UNREADABLE, InvalidDocument
from shared.events.publish_http import read_events
from shared.events.schema_rules import Arrival
from shared.events.topic import InputSchema, Topic
from shared.http import HttpAnswer, HttpRequest
from shared.subscriptions.event_values import EventValues
from shared.subscriptions.request_limits import limits_document

_MOST_ANSWERS = 100
_LONGEST_ANSWER = 86400  # seconds: a day, longer than any timeout


def match_events(
    subscriptions: Subscriptions, read: Callable[[Document], Topic], call: Call
) -> HttpAnswer:
    """
    Match events, in the form of a publish request, with a topic's subscriptions; publish none.

    Each subscription has ``matched``, how many of them it would get now, and else ``why`` not: of
    the event that came closest; ``passed`` is how many conditions held. ``limits`` are those of its
    requests, and ``warnings`` name parts of it that match almost no event.
    """
    now, stored = subscriptions.clock.now(), subscriptions.resources
    topic = read(subscriptions.topics.named(call).document)
    arrival = Arrival(now, subscriptions.new_id())
    events = read_events(_publish_request(call, topic), topic, arrival)
    values = [EventValues(each) for each in events]
    count = cache(lambda: len(stored.list(Table.TOPICS, PROCESSES)))
    listed = subscriptions.listed(subscriptions.topic(call))
    found = [_match(each.document, values, now, count) for each in listed]
    return answer(200, {"events": len(events), "value": found})


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
        "warnings": [],
    }
    try:
        subscription = to_subscription_in_force(document)
        pending = pending_consent(document, now)
    except UNREADABLE:
        return {**found, "why": "its row can't be read"}
    found["warnings"] = subscription_warnings(in_force(document) or document)
    if pending and not subscription.has_consented:
        return {**found, "why": pending.why.removesuffix(".")}
    if subscription.is_expired(now):
        return {**found, "why": "it has expired"}
    found["limits"] = limits_document(subscription.limits, subscription.rate, processes)
    refusals = [each for one in values if (each := subscription.filter.refusal(one))]
    matched = len(values) - len(refusals)
    closest = max(refusals, default=None)
    if matched or closest is None:
        return {**found, "matched": matched}
    return {**found, "passed": closest.passed, "why": closest.why}


def forecast_event(
    subscriptions: Subscriptions, deployment_terms: DeploymentTerms, call: Call
) -> HttpAnswer:
    """Answer the course of an event with the subscription's own terms, in seconds."""
    terms = deployment_terms.of(subscriptions.in_force(call))
    try:
        expected = forecast(_answers(call), terms, _response_time(call))
    except ValueError as error:
        raise InvalidDocument(f"The forecast can't be made: {error}.") from None
    attempts = [
        {
            "number": each.number,
            "at": each.at.total_seconds(),
            "answer": each.answer,
            "outcome": each.outcome,
            "nextAt": _seconds(each.next_at),
            "why": each.why,
        }
        for each in expected.attempts
    ]
    end = {
        "state": expected.state,
        "reason": expected.reason,
        "why": expected.why,
        "at": expected.at.total_seconds(),
        "blobAt": _seconds(expected.blob_at),
    }
    profile = terms.profile
    found = {"profile": profile.name, "edition": profile.edition, "timeScale": terms.time_scale}
    return answer(200, {**found, "attempts": attempts, "end": end})


def _answers(call: Call) -> list[str]:
    answers = [each.strip() for each in call.query.get("answers", "200").split(",")]
    if len(answers) > _MOST_ANSWERS:
        raise ValueError(f"there are more than {_MOST_ANSWERS} answers")
    return answers


def _response_time(call: Call) -> timedelta:
    with suppress(ValueError):
        seconds = float(call.query.get("responseseconds", "0"))
        if 0 <= seconds <= _LONGEST_ANSWER:
            return timedelta(seconds=seconds)
    raise ValueError(f"responseSeconds must be 0 to {_LONGEST_ANSWER}")


def _seconds(moment: timedelta | None) -> float | None:
    return None if moment is None else moment.total_seconds()
