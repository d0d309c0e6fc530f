"""Tests an endpoint: sends one event at once, and answers with what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from shared import telemetry
from shared.arm.arm_json import answer, error_answer
from shared.arm.delivery_attributes_codec import HIDDEN
from shared.clip import LONGEST, as_text, clip, without_markup
from shared.clock import timestamp
from shared.delivery.delivery import Delivery, Origin
from shared.delivery.outcome import Outcome, classify
from shared.delivery.pace import Allowance, ask
from shared.delivery.requests.push_request import push_request
from shared.engine.keeping.deployment_terms import DeploymentTerms
from shared.engine.manage.call import Call
from shared.engine.manage.endpoint_validation import Send
from shared.engine.manage.subscriptions import Subscriptions
from shared.errors import TooManyRequests
from shared.events.literals import dumps
from shared.events.topic import InputSchema
from shared.http import Answered, Exchange, Failure, HttpAnswer, OutboundRequest, Peer
from shared.subscriptions.destination import base_url
from shared.subscriptions.secrecy import Secrecy
from shared.subscriptions.subscription import EventSubscription, StaticHeader, SubscriptionKey

TESTS_A_MINUTE, TESTS_AT_ONCE = 20, 3  # of a subscription, in each process
_MOST_REMEMBERED = 1000  # subscriptions
_TYPE, _SUBJECT = "Pushgrid.TestEvent", "/pushgrid/test"
_DATA = {"message": "An operator tests this endpoint. The event was not published."}


@dataclass(slots=True)
class RequestRate:
    """The latest requests of one process, by subscription."""

    _known: dict[SubscriptionKey, Allowance] = field(default_factory=dict)

    def wait(self, key: SubscriptionKey, rate: int, now: datetime) -> float | None:
        """Count a request at *rate* a minute; or return the seconds to wait: it may not be made."""
        before = self._known.pop(key.folded, None)
        after, again_at = ask(before, rate, now)
        self._known[key.folded] = before if again_at and before else after
        if len(self._known) > _MOST_REMEMBERED:
            del self._known[next(iter(self._known))]
        return (again_at - now).total_seconds() if again_at else None


def send_test_event(
    subscriptions: Subscriptions,
    send: Send,
    deployment_terms: DeploymentTerms,
    latest: RequestRate,
    call: Call,
) -> HttpAnswer:
    """
    Send a test event to the endpoint, held or not, and answer with the exchange.

    It passes no queue and counts nowhere: not in health, metrics or attempts.
    """
    subscription, now = subscriptions.consented(call), subscriptions.clock.now()
    rate = min(TESTS_A_MINUTE, subscription.rate or TESTS_A_MINUTE)
    if seconds := latest.wait(subscription.key, rate, now):
        return _too_many(rate, seconds)
    terms = deployment_terms.of(subscription)
    batch = (_test_event(subscription, subscriptions.new_id(), now),)
    request = push_request(subscription, terms, batch, now)
    asked = request._replace(wants_body=True, examines_peer=True)
    exchange = send(asked, terms.profile.acknowledgement_timeout)
    outcome = None
    if isinstance(exchange, Answered) or exchange.failure is not Failure.SHORTAGE:
        outcome = classify(exchange, terms.profile.success_codes).outcome
    telemetry.info(
        "subscription.tested",
        topic=subscription.topic,
        subscription=subscription.name,
        by=call.by,
        outcome=outcome,
        status=exchange.status if isinstance(exchange, Answered) else None,
    )
    document = {
        "topic": subscription.topic,
        "subscription": subscription.name,
        "at": timestamp(now),
        "succeeded": outcome is Outcome.DELIVERED,
        "outcome": outcome,  # ``None``: a local shortage
        "request": _request_document(request, subscription),
        **_answer_document(exchange, Secrecy(subscription)),
        "seconds": round(exchange.seconds, 3),
        "peer": _peer_document(exchange.peer),
    }
    return answer(200, document)


def _test_event(subscription: EventSubscription, event_id: str, now: datetime) -> Delivery:
    """Return a delivery of the test event, in the form in which its topic's events are stored."""
    named = {"id": event_id, "subject": _SUBJECT}
    source, time = subscription.topic_id, timestamp(now)
    event: dict[str, Any] = {**named, "eventType": _TYPE, "eventTime": time, "data": _DATA}
    if subscription.input_schema is InputSchema.CLOUD_EVENTS:
        cloud = {"specversion": "1.0", "type": _TYPE, "source": source, "time": time}
        event = {**cloud, **named, "data": _DATA}
    else:
        if subscription.input_schema is InputSchema.CUSTOM:  # the whole event is the data
            event["data"] = {**event}
        event |= {"topic": source, "dataVersion": "1.0", "metadataVersion": "1"}
    return Delivery(origin=Origin(event_id, now, None), position=0, text=dumps(event))


def _too_many(rate: int, seconds: float) -> HttpAnswer:
    limit = f"At most {TESTS_AT_ONCE} tests at once, and {TESTS_A_MINUTE} a minute"
    if rate < TESTS_A_MINUTE:
        limit = f"The endpoint allows {rate} request{'s' * (rate > 1)} a minute"
    wait = int(seconds) + 1
    refused = error_answer(TooManyRequests(f"{limit}: try again in {wait} s."))
    return replace(refused, headers={**refused.headers, "Retry-After": str(wait)})


def _request_document(
    request: OutboundRequest, subscription: EventSubscription
) -> Mapping[str, Any]:
    """Return the request without secrets: those of its URL and of its headers."""
    secret = {
        each.name.lower()
        for each in subscription.headers
        if isinstance(each, StaticHeader) and each.is_secret
    }
    headers = dict(request.headers) | ({"Authorization": ""} if request.audience else {})
    shown = {
        name: HIDDEN if name.lower() in {*secret, "authorization"} else value
        for name, value in headers.items()
    }
    url = base_url(request.url)
    return {"method": request.method, "url": url, "headers": shown, "body": request.body.decode()}


def _answer_document(exchange: Exchange, secrecy: Secrecy) -> dict[str, Any]:
    shown = secrecy.shown
    if not isinstance(exchange, Answered):
        failure = {"reason": exchange.failure, "detail": shown(exchange.detail)}
        return {"answer": None, "failure": failure}
    content_type = exchange.headers.get("content-type", "")
    body = as_text(without_markup(exchange.body, content_type))
    answered = {
        "status": exchange.status,
        "headers": {
            shown(name): secrecy.header(name, value) for name, value in exchange.headers.items()
        },
        "body": shown(body),
        "isTruncated": len(body) > LONGEST,
    }
    return {"answer": answered, "failure": None}


def _peer_document(peer: Peer | None) -> Mapping[str, Any] | None:
    if peer is None:
        return None
    shown = peer.certificate and {
        "subject": clip(peer.certificate.subject),
        "issuer": clip(peer.certificate.issuer),
        "validUntil": timestamp(peer.certificate.valid_until),
        "names": [clip(each) for each in peer.certificate.names],
        "matchesHost": peer.certificate.matches,
    }
    return {"address": peer.address, "certificate": shown}
