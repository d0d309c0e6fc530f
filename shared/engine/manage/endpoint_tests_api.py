"""Tests an endpoint: sends one event at once, and answers with what came of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from shared import telemetry
from shared.arm.arm_json import answer, error_answer
from shared.arm.delivery_attributes_codec import HIDDEN
from shared.arm.subscription_codec import to_subscription_in_force
from shared.clock import timestamp
from shared.delivery.outcome import Outcome, classify
from shared.delivery.requests.push_request import push_request
from shared.delivery.requests.sample_event import sample_event
from shared.engine.manage.call import Call, ManagePorts
from shared.engine.manage.subscriptions import Subscriptions
from shared.errors import Conflict, TooManyRequests
from shared.http import Answered, Exchange, Failure, HttpAnswer, OutboundRequest, Peer
from shared.subscriptions.endpoint_rules import base_url
from shared.subscriptions.subscription import EventSubscription, StaticHeader

TESTS_A_MINUTE = 20  # of a subscription, in each process
SHOWN_BYTES = 1024  # of an answer's body
_SHORTEST_SECRET = 4  # characters: a shorter one can't be told from other text
_BEARER = re.compile(r"(?i)(bearer\s+)[\w.~+/=-]+")


def endpoint_tests_of(form: Subscriptions) -> Callable[[ManagePorts, Call], HttpAnswer]:
    """Return the handler for event subscriptions in one form."""

    def test(ports: ManagePorts, call: Call) -> HttpAnswer:
        """
        Send a test event to the endpoint, held or not, and answer with the exchange.

        It passes no queue and counts nowhere: not in health, metrics or attempts.
        """
        stored = form.named(ports, call, form.topic(ports, call)).document
        subscription, now = to_subscription_in_force(stored), ports.clock.now()
        if not subscription.has_consented:
            raise Conflict("The endpoint has not completed the validation handshake.")
        rate = min(TESTS_A_MINUTE, subscription.rate or TESTS_A_MINUTE)
        if seconds := ports.test_rate.wait(subscription.key, rate, now):
            return _too_many(rate, seconds)
        request, exchange, outcome = _sent(ports, subscription, now)
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
            "outcome": outcome,
            "request": _asked(request, subscription),
            **_said(exchange, _Mask(subscription)),
            "seconds": round(exchange.seconds, 3),
            "peer": _peer(exchange.peer),
        }
        return answer(200, document)

    return test


def _too_many(rate: int, seconds: float) -> HttpAnswer:
    refused = error_answer(TooManyRequests(f"At most {rate} tests a minute."))
    return replace(refused, headers={**refused.headers, "Retry-After": str(int(seconds) + 1)})


def _sent(
    ports: ManagePorts, subscription: EventSubscription, now: datetime
) -> tuple[OutboundRequest, Exchange, Outcome | None]:
    """Send a test event; return request, exchange and outcome (``None``: we had no resources)."""
    terms = ports.terms.of(subscription)
    request = push_request(subscription, terms, (sample_event(subscription, ports.new_id(), now),))
    asked = request._replace(wants_body=True, examines_peer=True)
    exchange = ports.pusher.send(asked, terms.profile.acknowledgement_timeout)
    if not isinstance(exchange, Answered) and exchange.failure is Failure.SHORTAGE:
        return request, exchange, None
    return request, exchange, classify(exchange, terms.profile.success_codes).outcome


class _Mask:
    """Hides the secrets of a subscription in what its endpoint says."""

    def __init__(self, subscription: EventSubscription) -> None:
        query = urlsplit(subscription.endpoint_url).query
        headers = [each for each in subscription.headers if isinstance(each, StaticHeader)]
        secrets = {query, *(value for _, value in parse_qsl(query, keep_blank_values=True))}
        secrets |= {each.value for each in headers if each.is_secret}
        forms = {form for each in secrets if len(each) >= _SHORTEST_SECRET for form in _forms(each)}
        longest_first = sorted(forms, key=len, reverse=True)
        self._secrets = re.compile("|".join(map(re.escape, longest_first)) or "(?!)", re.IGNORECASE)

    def __call__(self, text: str) -> str:
        return _BEARER.sub(rf"\1{HIDDEN}", self._secrets.sub(HIDDEN, text))


def _forms(secret: str) -> set[str]:
    """Return a secret as a text, a URL and JSON have it."""
    escaped = json.dumps(secret)[1:-1]
    return {secret, quote(secret, safe=""), escaped, escaped.replace("/", r"\/")}


def _asked(request: OutboundRequest, subscription: EventSubscription) -> Mapping[str, Any]:
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


def _said(exchange: Exchange, mask: _Mask) -> dict[str, Any]:
    if not isinstance(exchange, Answered):
        failure = {"reason": exchange.failure, "detail": mask(exchange.detail)}
        return {"answer": None, "failure": failure}
    body = mask(exchange.body.decode(errors="replace")).encode()  # before a secret is cut in two
    said = {
        "status": exchange.status,
        "headers": {name: mask(value) for name, value in exchange.headers.items()},
        "body": body[:SHOWN_BYTES].decode(errors="ignore"),
        "isTruncated": len(body) > SHOWN_BYTES,
    }
    return {"answer": said, "failure": None}


def _peer(peer: Peer | None) -> Mapping[str, Any] | None:
    if peer is None:
        return None
    shown = peer.certificate and {
        "subject": peer.certificate.subject,
        "issuer": peer.certificate.issuer,
        "validUntil": timestamp(peer.certificate.valid_until),
        "names": list(peer.certificate.names),
        "matchesHost": peer.certificate.matches,
    }
    return {"address": peer.address, "certificate": shown}
