"""Late answers in a forecast: what the 3-minute rule makes of slow endpoints. Contract §3.5."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shared.delivery.forecast import forecast
from tests.builders import DEAD, terms

D, L, X = "delivered", "deadLettered", "dropped"


@pytest.mark.parametrize(
    ("takes", "attempts", "state", "at"),
    [
        pytest.param(30, [0], D, 30, id="in time, just"),
        pytest.param(35, [0], D, 35, id="before the retry"),
        pytest.param(39.9, [0], D, 39.9, id="just before the retry"),
        pytest.param(40, [0, 40], D, 80, id="as the retry begins: the second one's answer counts"),
        pytest.param(45, [0, 40], D, 85, id="after the retry has begun"),
        pytest.param(80, [0, 40, 100], D, 180, id="after two retries have begun"),
        pytest.param(180, [0, 40, 100, 190], D, 370, id="at the end of the three minutes"),
        pytest.param(181, [0, 40, 100, 190, 520], X, 550, id="later than that"),
    ],
)
def test_a_success_after_the_timeout(
    takes: float, attempts: list[float], state: str, at: float
) -> None:
    predicted = forecast(["200"], terms(max_attempts=5), timedelta(seconds=takes))

    assert [each.at.total_seconds() for each in predicted.attempts] == attempts
    assert (predicted.state, predicted.at.total_seconds()) == (state, at)


def test_the_attempt_that_was_answered_late_is_the_last() -> None:
    (attempt,) = forecast(["200"], terms(), timedelta(seconds=35)).attempts

    assert (attempt.outcome, attempt.next_at) == ("Delivered", None)
    assert attempt.why == "a late success, after 35 s: what was to follow is cancelled"


@pytest.mark.parametrize("answer", ["503", "302", "timeout", "refused"])
def test_a_late_failure_cancels_nothing(answer: str) -> None:
    predicted = forecast([answer, "200"], terms(max_attempts=1), timedelta(seconds=35))

    assert [each.outcome for each in predicted.attempts] == ["TimedOut"]
    assert (predicted.state, predicted.at.total_seconds()) == (X, 30)


@pytest.mark.parametrize(
    ("takes", "state", "at"),
    [pytest.param(180, D, 180, id="before the blob"), pytest.param(181, L, 30, id="too late")],
)
def test_a_dead_letter_is_cancelled_while_it_waits(takes: float, state: str, at: float) -> None:
    rules = terms(max_attempts=1, dead_letter=DEAD)
    predicted = forecast(["200"], rules, timedelta(seconds=takes))

    assert (predicted.state, predicted.at.total_seconds()) == (state, at)
    assert (predicted.blob_at is None) is (state == D)


@pytest.mark.parametrize("profile", ["2017", "ns"])
def test_an_edition_without_the_rule_has_none(profile: str) -> None:
    predicted = forecast(["200"], terms(profile=profile, max_attempts=2), timedelta(seconds=65))

    assert predicted.state == X
    assert {each.outcome for each in predicted.attempts} == {"TimedOut"}


def test_an_answer_that_is_none_is_refused_however_long_it_takes() -> None:
    with pytest.raises(ValueError, match="neither a status"):
        forecast(["perhaps"], terms(), timedelta(seconds=35))
