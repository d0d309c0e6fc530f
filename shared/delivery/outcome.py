"""Classifies the results of pushes under Event Grid's names of outcomes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from shared.clip import as_text, clip, first_line, without_markup
from shared.http import Answered, Exchange, Failure
from shared.subscriptions.secrecy import Secrecy
from shared.subscriptions.subscription import EventSubscription

MOST_CAUSE = 100  # characters
MOST_WORDS = 200  # characters of what an endpoint said
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

# Finding the secrets of a subscription takes most of the time.
_secrecy = lru_cache(maxsize=256)(Secrecy)


class Outcome(StrEnum):
    """
    Names of ``lastDeliveryOutcome``.

    Source: Event Grid "Delivery and retry" (2023-03-01), Dead-letter events; ``GenericError`` from
    the diagnostic logs. ``Delivered`` is ours and never written to a dead letter.
    ``Probation`` is no attempt's: its deliveries were held.
    """

    DELIVERED = "Delivered"
    BAD_REQUEST = "BadRequest"
    UNAUTHORIZED = "Unauthorized"
    FORBIDDEN = "Forbidden"
    NOT_FOUND = "NotFound"
    TIMED_OUT = "TimedOut"
    PAYLOAD_TOO_LARGE = "PayloadTooLarge"
    BUSY = "Busy"
    SOCKET_ERROR = "SocketError"
    RESOLUTION_ERROR = "ResolutionError"
    GENERIC_ERROR = "GenericError"
    PROBATION = "Probation"


def answer_words(headers: Mapping[str, str], body: str | None) -> str:
    """Return in one line what an endpoint answered: where it redirects to, its body's first."""
    location = headers.get("location")
    said = (f"Location: {location}" if location else "", first_line(body or "", MOST_WORDS))
    return clip("; ".join(filter(None, said)), MOST_WORDS)


class EndpointAnswer(NamedTuple):
    """What an endpoint answered to a request that failed, without our secrets; bounded."""

    of: str  # the system id of the event with whose attempt it is kept
    headers: Mapping[str, str]  # selected ones
    body: str | None  # its beginning; ``None``: this only refers to `of`
    is_truncated: bool = False

    @property
    def words(self) -> str:
        """What the endpoint said, in one line."""
        return answer_words(self.headers, self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryOutcome:
    """One attempt's outcome."""

    outcome: Outcome
    status: int | None  # of HTTP; ``None``: there was no answer
    seconds: float  # how long the endpoint took
    detail: str = ""  # for the operator's log only
    retry_after: str | None = None  # the header as it was sent
    failure: Failure | None = None  # why there was no answer
    answer: EndpointAnswer | None = None  # of a failed attempt, if answers are kept

    @property
    def cause(self) -> str:
        """The cause in a few words: ``503 Busy``, ``Connection refused``."""
        if self.status is not None:
            return f"{self.status} {self.outcome}"
        is_socket = self.outcome is Outcome.SOCKET_ERROR
        words = self.detail.rpartition(": ")[2] if is_socket else self.detail
        return clip(words, MOST_CAUSE) if words else str(self.outcome)


_BY_STATUS = {
    400: Outcome.BAD_REQUEST,
    401: Outcome.UNAUTHORIZED,
    403: Outcome.FORBIDDEN,
    404: Outcome.NOT_FOUND,
    408: Outcome.TIMED_OUT,
    413: Outcome.PAYLOAD_TOO_LARGE,
    429: Outcome.BUSY,
    503: Outcome.BUSY,
}
_BY_FAILURE = {
    Failure.TIMED_OUT: Outcome.TIMED_OUT,
    Failure.RESOLUTION: Outcome.RESOLUTION_ERROR,
    Failure.SOCKET: Outcome.SOCKET_ERROR,
    Failure.TLS: Outcome.SOCKET_ERROR,
}


def classify(exchange: Exchange, success_codes: Collection[int]) -> DeliveryOutcome:
    """
    Return the outcome of an attempt: by its status alone, not by body or headers.

    Source: contract §2.3 (success codes, redirects are failures) and §3.7 (names).
    """
    if isinstance(exchange, Answered):
        if exchange.status in success_codes:
            outcome = Outcome.DELIVERED
        else:
            outcome = _BY_STATUS.get(exchange.status, Outcome.GENERIC_ERROR)
        return DeliveryOutcome(
            outcome=outcome,
            status=exchange.status,
            seconds=exchange.seconds,
            retry_after=exchange.headers.get("retry-after"),
        )
    return DeliveryOutcome(
        outcome=_BY_FAILURE.get(exchange.failure, Outcome.GENERIC_ERROR),
        status=None,
        seconds=exchange.seconds,
        detail=f"{exchange.failure}: {exchange.detail}",
        failure=exchange.failure,
    )


def endpoint_answer(
    answered: Answered, subscription: EventSubscription, system_id: str
) -> EndpointAnswer:
    """
    Return what is kept with the attempt of *system_id*; of HTML, its text.

    A header or body that repeats a secret of the subscription is withheld, and so is the query of
    a location (`Secrecy`).
    """
    secrecy = _secrecy(subscription)
    body = without_markup(answered.body, answered.headers.get("content-type", ""))
    return EndpointAnswer(
        of=system_id,
        headers={
            name: secrecy.header(name, answered.headers[name], MOST_HEADER)
            for name in HEADERS
            if name in answered.headers
        },
        body=secrecy.shown(as_text(body[:MOST_BODY]), MOST_BODY),
        is_truncated=len(body) > MOST_BODY,
    )
