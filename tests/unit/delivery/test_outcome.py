"""What an attempt is called; contract §2.3 (success) and §3.7 (names)."""

from __future__ import annotations

import pytest

from pushgrid.testing.memory import answered
from shared.delivery.outcome import DeliveryOutcome, Outcome, classify
from shared.delivery.profiles import PROFILES
from shared.http import Exchange, Failure, NotAnswered

LATEST = PROFILES["latest"].success_codes
NAMED = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    408: "TimedOut",
    413: "PayloadTooLarge",
    429: "Busy",
    503: "Busy",
}
FAILURES = {
    Failure.TIMED_OUT: "TimedOut",
    Failure.RESOLUTION: "ResolutionError",
    Failure.SOCKET: "SocketError",
    Failure.TLS: "SocketError",
    Failure.NOT_ALLOWED: "GenericError",
    Failure.UNSENDABLE: "GenericError",
    Failure.MALFORMED: "GenericError",
    Failure.UNAUTHORIZED: "GenericError",
    Failure.NO_AUTHORITY: "GenericError",
    Failure.FAULT: "GenericError",
}


def test_every_status_has_its_name() -> None:
    """Redirects and 205 to 299 are failures: "only the following … as successful"."""
    expected = dict.fromkeys(range(100, 1000), "GenericError") | NAMED
    expected |= dict.fromkeys((200, 201, 202, 203, 204), "Delivered")

    outcomes = {status: classify(answered(status), LATEST) for status in expected}

    assert {status: each.outcome for status, each in outcomes.items()} == expected
    assert all(each.status == status for status, each in outcomes.items())


def test_an_answer_gives_its_time_and_its_retry_after_but_not_its_body() -> None:
    outcome = classify(answered(503, b'{"status":200}', {"retry-after": "45"}, 0.25), LATEST)

    assert outcome == DeliveryOutcome(
        outcome=Outcome.BUSY, status=503, seconds=0.25, retry_after="45"
    )


@pytest.mark.parametrize("failure", FAILURES, ids=str)
def test_every_failure_has_a_name_and_no_status(failure: Failure) -> None:
    outcome = classify(NotAnswered(failure, "10.0.0.1 refused", 1.5), LATEST)

    assert (outcome.outcome, outcome.status) == (FAILURES[failure], None)
    assert outcome.failure is failure
    assert (outcome.seconds, outcome.detail) == (1.5, f"{failure}: 10.0.0.1 refused")


def test_every_failure_but_a_shortage_of_ours_has_an_outcome() -> None:
    """A shortage is no attempt."""
    assert set(Failure) - set(FAILURES) == {Failure.SHORTAGE}


@pytest.mark.parametrize(
    ("exchange", "cause"),
    [
        (answered(503), "503 Busy"),
        (
            NotAnswered(Failure.SOCKET, "connecting to 203.0.113.7: Connection refused", 0.0),
            "Connection refused",
        ),
        (NotAnswered(Failure.TIMED_OUT, "no answer in 30 s", 30.0), "timed out: no answer in 30 s"),
        (NotAnswered(Failure.FAULT, "x" * 999, 0.0), f"fault of the sender: {'x' * 78}…"),
    ],
)
def test_the_cause_is_named_in_a_few_words(exchange: Exchange, cause: str) -> None:
    assert classify(exchange, {200}).cause == cause
