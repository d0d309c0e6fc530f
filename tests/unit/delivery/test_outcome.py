"""What an attempt is called; contract §2.3 (success) and §3.7 (names)."""

from __future__ import annotations

import pytest

from shared.delivery.outcome import Outcome, classify
from shared.delivery.profiles import PROFILES
from shared.http import Failure, NotAnswered
from tests.fakes import answered

LATEST = PROFILES["latest"].success_codes
SUCCESSES = (200, 201, 202, 203, 204)
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
}


@pytest.mark.parametrize("status", SUCCESSES)
def test_only_200_to_204_deliver(status: int) -> None:
    outcome = classify(answered(status, seconds=0.25), LATEST)

    assert (outcome.outcome, outcome.status) == (Outcome.DELIVERED, status)
    assert (outcome.seconds, outcome.detail) == (0.25, "")


@pytest.mark.parametrize(("status", "name"), NAMED.items())
def test_a_known_status_has_its_name(status: int, name: str) -> None:
    outcome = classify(answered(status), LATEST)

    assert (outcome.outcome, outcome.status) == (name, status)


def test_every_other_status_is_a_generic_error() -> None:
    """Redirects and 205 to 299 are failures: "only the following … as successful"."""
    others = [each for each in range(100, 1000) if each not in (*SUCCESSES, *NAMED)]

    outcomes = {classify(answered(status), LATEST).outcome for status in others}

    assert outcomes == {Outcome.GENERIC_ERROR}


def test_the_body_never_counts() -> None:
    outcome = classify(answered(500, b'{"status":200}'), LATEST)

    assert outcome.outcome is Outcome.GENERIC_ERROR


@pytest.mark.parametrize("failure", Failure, ids=str)
def test_every_failure_has_a_name_and_no_status(failure: Failure) -> None:
    outcome = classify(NotAnswered(failure, "10.0.0.1 refused", 1.5), LATEST)

    assert (outcome.outcome, outcome.status) == (FAILURES[failure], None)
    assert (outcome.seconds, outcome.detail) == (1.5, f"{failure}: 10.0.0.1 refused")
