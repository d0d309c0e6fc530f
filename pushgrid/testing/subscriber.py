"""Subscribers of a test: each answers by a script or a handler, and keeps what it got."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from inspect import iscoroutinefunction
from types import CoroutineType
from typing import Any, Protocol, TypeAlias

from pushgrid.testing.memory import FakeClock, answered
from shared.http import (
    Answered,
    Exchange,
    Failure,
    LateAnswerHandler,
    NotAnswered,
    OutboundRequest,
)
from shared.subscriptions.subscription import WEBHOOK_ORIGIN

TIMEOUT, REFUSED = "timeout", "refused"
_OK, _HANDLER_RAISED, _LAST = 200, 500, 599


@dataclass(frozen=True)
class Request:
    """A request that a subscriber got. Header names are as they were sent."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the body, parsed."""
        return json.loads(self.body)

    @cached_property
    def events(self) -> list[Any]:
        """The events in the body, in the subscription's delivery schema."""
        found = self.json()
        return found if isinstance(found, list) else [found]


class Response(Protocol):
    """What the test client of a web framework returns; ``data`` or ``content`` is its body."""

    @property
    def status_code(self) -> int: ...
    @property
    def headers(self) -> Any: ...


# A status, or None for 200; a status and headers; these and a body; or a response. As a script also
# `TIMEOUT` and `REFUSED`.
Headers: TypeAlias = Mapping[str, str]
Answer: TypeAlias = int | str | tuple[int, Headers] | tuple[int, Headers, bytes] | Response | None
Handler: TypeAlias = Callable[[Request], Answer]


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """
    A request that delivered events, and its outcome.

    *after* is the time since the test began, in seconds. *status* is ``None`` if there was no
    answer. *error* is what the handler raised.
    """

    at: datetime
    after: float
    request: Request
    status: int | None
    error: Exception | None = None

    @property
    def events(self) -> list[Any]:
        return self.request.events


class SubscriberWebhook:
    """
    The webhook of a subscriber.

    It answers by *handler*, or else by *answers* in turn, the last of them for ever. It completes
    the validation handshake by itself, unless its handler *is_asked_to_consent*.
    """

    def __init__(
        self,
        answers: Sequence[Answer] | None,
        handler: Handler | None = None,
        *,
        is_asked_to_consent: bool = False,
    ) -> None:
        if handler is not None and answers is not None:
            raise TypeError("answers and handler exclude each other: the handler answers")
        _check_handler(handler)
        self.answers = checked((200,) if answers is None else answers)
        self.attempts: list[Attempt] = []
        self._handler = handler
        self._is_asked_to_consent = is_asked_to_consent

    def consent(self, request: OutboundRequest) -> Exchange:
        """Answer a handshake or a notice."""
        if self._handler and self._is_asked_to_consent:
            return _handled(self._handler(_received(request)), timedelta())
        return consent(request)

    def answer(self, request: OutboundRequest, timeout: timedelta, clock: FakeClock) -> Exchange:
        """Answer a request with events, and record it. A handler that raises answers 500."""
        received, at, error = _received(request), clock.now(), None
        try:
            exchange = _handled(self._next(received), timeout)
        except Exception as raised:  # noqa: BLE001 - as a web server would
            exchange, error = answered(_HANDLER_RAISED), raised
        status = exchange.status if isinstance(exchange, Answered) else None
        after = (at - clock.start).total_seconds()
        self.attempts.append(
            Attempt(at=at, after=after, request=received, status=status, error=error)
        )
        return exchange

    def _next(self, request: Request) -> Answer:
        if self._handler:
            return self._handler(request)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class WebhookPusher:
    """
    Pusher to the endpoints of the test, whose handlers run where the loop runs blocking calls.

    Answers take no time, a timeout takes its time.
    """

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._by_url: dict[str, SubscriberWebhook] = {}
        self.failed_assertion: AssertionError | None = None

    def connect(self, url: str, endpoint: SubscriberWebhook) -> None:
        """Answer requests to *url* at *endpoint* from now on."""
        self._by_url[url] = endpoint

    async def send(
        self, request: OutboundRequest, timeout: timedelta, late: LateAnswerHandler | None = None
    ) -> Exchange:
        del late  # what timed out here never answers
        endpoint = self._by_url.get(request.url)
        if endpoint is None:
            return NotAnswered(
                Failure.RESOLUTION, f"the test has no subscriber at {request.url}", 0
            )
        loop = asyncio.get_running_loop()
        if is_handshake(request):
            return await loop.run_in_executor(None, endpoint.consent, request)
        exchange = await loop.run_in_executor(None, self._answer, endpoint, request, timeout)
        if isinstance(exchange, NotAnswered) and exchange.failure is Failure.TIMED_OUT:
            await asyncio.sleep(timeout.total_seconds())
        return exchange

    def _answer(
        self, endpoint: SubscriberWebhook, request: OutboundRequest, timeout: timedelta
    ) -> Exchange:
        exchange = endpoint.answer(request, timeout, self._clock)
        if isinstance(error := endpoint.attempts[-1].error, AssertionError):
            self.failed_assertion = self.failed_assertion or error
        return exchange


def is_handshake(request: OutboundRequest) -> bool:
    """Tell whether a request is about the subscription: it delivers no events of a topic."""
    is_put = request.queue is not None
    is_notification = request.headers.get("aeg-event-type") == "Notification"
    return not is_put and (request.method == "OPTIONS" or not is_notification)


def consent(request: OutboundRequest) -> Answered:
    """Answer a handshake or a notice as an endpoint that wants events."""
    if request.method == "OPTIONS":
        return answered(_OK, headers={"webhook-allowed-origin": WEBHOOK_ORIGIN})
    if request.headers["aeg-event-type"] != "SubscriptionValidation":
        return answered(_OK)
    code = json.loads(request.body)[0]["data"]["validationCode"]
    return answered(_OK, json.dumps({"validationResponse": code}).encode())


def _received(request: OutboundRequest) -> Request:
    return Request(request.method, request.url, dict(request.headers), request.body)


def checked(answers: Sequence[Answer]) -> list[Answer]:
    """
    Return a script.

    Raises:
        TypeError: it is no sequence of answers.
        ValueError: it has what is no answer, or nothing.
    """
    if isinstance(answers, str | bytes) or not isinstance(answers, Sequence):
        raise TypeError(f"answers={answers!r}: give a list, as in answers=[{answers!r}]")
    for each in answers:
        _exchange(each, timedelta())
    if not answers:
        raise ValueError("a script needs an answer")
    return list(answers)


def _check_handler(handler: object) -> None:
    if handler is None:
        return
    if not callable(handler):
        raise TypeError(
            f"handler={handler!r} is no function of a request: for a fixed answer use answers"
        )
    if iscoroutinefunction(handler) or iscoroutinefunction(type(handler).__call__):
        raise TypeError(f"handler: {_not_awaited(getattr(handler, '__name__', 'handler'))}")


def _not_awaited(name: str) -> str:
    return (
        f"{name} is an async function, and handlers are not awaited: use "
        f"handler=lambda request: asyncio.run({name}(request))"
    )


def _handled(answer: Answer, timeout: timedelta) -> Exchange:
    try:
        return _exchange(answer, timeout)
    except ValueError as error:
        raise AssertionError(f"handler: {error}") from error


def _exchange(answer: Answer, timeout: timedelta) -> Exchange:
    try:
        return _converted(answer, timeout)
    except (AttributeError, TypeError, ValueError):
        raise ValueError(_why_not(answer)) from None


def _why_not(answer: Answer) -> str:
    if isinstance(answer, CoroutineType):
        answer.close()
        return _not_awaited(answer.__name__)
    return f"{answer!r} is no answer: a status, (status, headers, body) or a response"


def _converted(answer: Answer, timeout: timedelta) -> Exchange:
    if answer == TIMEOUT:
        return NotAnswered(Failure.TIMED_OUT, "the test's script", timeout.total_seconds())
    if answer == REFUSED:
        return NotAnswered(Failure.SOCKET, "the test's script", 0)
    if answer is None:
        return answered(_OK)
    if isinstance(answer, int):
        return answered(_final(answer))
    if isinstance(answer, str):
        raise ValueError(answer)  # noqa: TRY004 - told with what an answer may be
    if isinstance(answer, tuple):
        status, headers, body = (*answer, b"")[:3]
    else:
        status, headers = answer.status_code, answer.headers
        body = getattr(answer, "data", None) or getattr(answer, "content", b"")
    lower = {name.lower(): value for name, value in headers.items()}
    return answered(_final(status), body, lower)


def _final(status: Any) -> int:
    if not (isinstance(status, int) and _OK <= status <= _LAST):
        raise ValueError(f"{status!r} is no final status")
    return status
