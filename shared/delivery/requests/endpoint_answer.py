"""Selects what is kept of an endpoint's answer to a request that failed."""

from __future__ import annotations

from functools import lru_cache

from shared.delivery.outcome import EndpointAnswer
from shared.http import Answered
from shared.subscriptions.secrecy import Secrecy
from shared.subscriptions.subscription import EventSubscription

MOST_BODY = 2048  # bytes
MOST_HEADER = 256  # characters
HEADERS = (
    "content-type",
    "content-encoding",
    "location",
    "retry-after",
    "server",
    "via",
    "www-authenticate",
    "x-correlation-id",
    "x-ms-request-id",
    "x-request-id",
)


def endpoint_answer(
    answered: Answered, subscription: EventSubscription, system_id: str
) -> EndpointAnswer:
    """
    Return what is kept with the attempt of *system_id*.

    A header or body that repeats a secret of the subscription is withheld (`Secrecy`).
    """
    secrecy = _secrecy(subscription)
    return EndpointAnswer(
        of=system_id,
        headers={
            name: secrecy.shown(answered.headers[name], MOST_HEADER)
            for name in HEADERS
            if name in answered.headers
        },
        body=secrecy.shown(answered.body[:MOST_BODY].decode(errors="replace"), MOST_BODY),
        is_truncated=len(answered.body) > MOST_BODY,
    )


@lru_cache(maxsize=256)
def _secrecy(subscription: EventSubscription) -> Secrecy:
    """Return the secrecy of a subscription; finding its secrets takes most of the time."""
    return Secrecy(subscription)
