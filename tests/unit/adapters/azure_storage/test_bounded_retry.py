"""How long a request to storage takes, on a driven clock, whatever happens to its tries."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    ServiceRequestError,
    ServiceRequestTimeoutError,
    ServiceResponseError,
    ServiceResponseTimeoutError,
)
from azure.core.pipeline import Pipeline
from azure.core.pipeline.transport import HttpRequest, RequestsTransport

from pushgrid.testing.memory import START, Seconds
from shared.adapters.azure_storage.bounded_retry import BoundedRetry, BoundedTransport
from shared.adapters.azure_storage.clients import time_of
from shared.adapters.azure_storage.queue_authorization import Authorization
from shared.adapters.azure_storage.sender import MessagePut
from shared.adapters.azure_storage.tries import LIMIT, LIMIT_SECONDS, TIME, TRIES, Tries
from shared.http import Answered, Exchange, OutboundRequest
from tests.without_loop import at_once, finished

Fate = Callable[[float], tuple[float, Exception | int]]  # of a try: its seconds, and its end

FATES: dict[str, Fate] = {
    "quick error": lambda _: (0.01, 503),
    "slow error": lambda left: (min(9.9, left), 503),
    "error at the end": lambda left: (left, 500),
    "hangs": lambda left: (min(10.0, left), ServiceResponseTimeoutError("hangs")),
    "no connection": lambda left: (min(5.0, left), ServiceRequestError("refused")),
    "reset": lambda left: (min(3.0, left), ServiceResponseError("reset")),
    "no token": lambda _: (7.0, ClientAuthenticationError("no token")),
}


class Storage:
    """A transport on its own clock; each try has the next of *fates*, the last one repeats."""

    def __init__(self, *fates: Fate) -> None:
        self.fates = fates
        self.now = 0.0
        self.tries = 0

    def send(self, request: Any, **options: Any) -> Any:  # noqa: ARG002 - the transport's
        fate = self.fates[min(self.tries, len(self.fates) - 1)]
        self.tries += 1
        seconds, end = fate(options[TIME].seconds_left())
        self.now += seconds
        if isinstance(end, Exception):
            raise end
        answer = type("Answer", (), {"status_code": end, "headers": {"Retry-After": "60"}})()
        answer.internal_response = type("Raw", (), {"close": staticmethod(lambda: None)})
        return answer

    def sleep(self, duration: float) -> None:
        self.now += duration


def status_of(storage: Storage, hangs: int, **options: Any) -> int | None:
    """Send a request; return the status of its answer, or ``None``."""
    transport: Any = storage
    pipeline = Pipeline[Any, Any](transport, [BoundedRetry(lambda: storage.now, hangs=hangs)])
    try:
        answer = pipeline.run(HttpRequest("GET", "http://acc/"), **options)
    except AzureError:
        return None
    return int(answer.http_response.status_code)


@pytest.mark.parametrize("hangs", [0, 1])
@pytest.mark.parametrize(
    ("first", "second"),
    # A token comes first: later tries have one.
    [(one, two) for one in FATES for two in FATES if two != "no token" or one == two],
)
@pytest.mark.parametrize("pause", [min, max], ids=["no pause", "longest pause"])
def test_no_request_takes_longer_than_its_limit(
    first: str,
    second: str,
    hangs: int,
    pause: Callable[[float, float], float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("random.uniform", pause)
    storage = Storage(FATES[first], FATES[second])

    assert status_of(storage, hangs) in (None, 500, 503)

    assert storage.now <= LIMIT_SECONDS
    assert storage.tries <= TRIES


def test_a_request_may_have_another_limit() -> None:
    storage = Storage(FATES["error at the end"])

    assert status_of(storage, 1, **{LIMIT: 3.0}) == 500
    assert (storage.now, storage.tries) == (3.0, 1)


@pytest.mark.parametrize(
    ("fate", "hangs", "tries"),
    [
        ("quick error", 0, 3),
        ("hangs", 0, 1),
        ("hangs", 1, 2),
        ("reset", 0, 3),
        ("no token", 0, 2),
    ],
)
def test_how_often_a_request_is_tried(fate: str, hangs: int, tries: int) -> None:
    storage = Storage(FATES[fate])

    status_of(storage, hangs)

    assert storage.tries == tries


@pytest.mark.parametrize("status", [200, 201, 304, 400, 403, 404, 409, 412, 501, 505])
def test_what_lasts_is_not_repeated(status: int) -> None:
    storage = Storage(lambda _: (0.0, status))

    assert status_of(storage, 1) == status
    assert storage.tries == 1


@pytest.mark.parametrize("left", [16.0, 11.0, 6.0, 0.5])
def test_a_try_has_no_more_time_than_its_request_has_left(
    left: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both kinds of transport may take as long to connect, and then as long for the answer."""
    given: list[float] = []

    def send_by_sdk(_: object, __: object, *, connection_timeout: float, read_timeout: float):
        given.append(connection_timeout + read_timeout)
        return SimpleNamespace(headers={})

    async def send(_: OutboundRequest, timeout: timedelta) -> Exchange:
        given.append(2 * timeout.total_seconds())
        return Answered(201, {}, b"", 0)

    monkeypatch.setattr(RequestsTransport, "send", send_by_sdk)
    account: Any = SimpleNamespace(answered=lambda *_: None)
    request, tries = HttpRequest("GET", "http://acc/"), Tries(hangs=0, limit=left, clock=Seconds())
    BoundedTransport(lambda *_: None).send(request, **{TIME: tries})
    finished(MessagePut(account, send, at_once)._try(request, Authorization(None), tries))

    assert given[0] <= left
    assert given[1] <= left
    assert min(given) >= min(left, 15) - 1e-9


@pytest.mark.parametrize(
    ("date", "told"),
    [
        ("Mon, 09 Feb 2026 12:00:00 GMT", START),
        *[(date, None) for date in (None, "", "yesterday", "0", "Mon, 99 Feb 2026")],
    ],
)
def test_an_answer_tells_the_time_if_it_has_a_date(date: str | None, told: datetime | None) -> None:
    assert time_of(date) == told


def test_no_try_begins_after_the_end() -> None:

    with pytest.raises(ServiceRequestTimeoutError):
        BoundedTransport(lambda *_: None).send(
            HttpRequest("GET", "http://acc/"), **{TIME: Tries(hangs=0, limit=0, clock=Seconds())}
        )
