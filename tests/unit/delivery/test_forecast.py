"""Late answers in a forecast: what the 3-minute rule makes of slow endpoints. Contract §3.5."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from shared.delivery.forecast import forecast
from tests.builders import DEAD, terms

D, L, X = "delivered", "deadLettered", "dropped"


FIVE: dict[str, Any] = {"max_attempts": 5}
ONE: dict[str, Any] = {"max_attempts": 1}
TO_BLOB = ONE | {"dead_letter": DEAD}


@pytest.mark.parametrize(
    ("answers", "takes", "rules", "attempts", "state", "at"),
    [
        pytest.param("200", 30, FIVE, [0], D, 30, id="in time, just"),
        pytest.param("200", 35, FIVE, [0], D, 35, id="before the retry"),
        pytest.param("200", 39.9, FIVE, [0], D, 39.9, id="just before the retry"),
        pytest.param("200", 40, FIVE, [0, 40], D, 80, id="as it begins: its own answer counts"),
        pytest.param("200", 80, FIVE, [0, 40, 100], D, 180, id="after two retries have begun"),
        pytest.param("200", 180, FIVE, [0, 40, 100, 190], D, 370, id="at the end of 3 minutes"),
        pytest.param("200", 181, FIVE, [0, 40, 100, 190, 520], X, 550, id="later than that"),
        pytest.param("503 200", 35, FIVE, [0, 40], D, 75, id="a late failure cancels nothing"),
        pytest.param("refused", 35, ONE, [0], X, 30, id="nor does none at all"),
        pytest.param("200", 180, TO_BLOB, [0], D, 180, id="before the blob"),
        pytest.param("200", 181, TO_BLOB, [0], L, 30, id="too late for the blob"),
        pytest.param("200", 65, ONE | {"profile": "2017"}, [0], X, 60, id="2017 has no such rule"),
        pytest.param("200", 65, ONE | {"profile": "ns"}, [0], X, 30, id="nor has ns"),
    ],
)
def test_an_answer_after_the_timeout(
    answers: str,
    takes: float,
    rules: dict[str, Any],
    attempts: list[float],
    state: str,
    at: float,
) -> None:
    predicted = forecast(answers.split(), terms(**rules), timedelta(seconds=takes))

    assert [each.at.total_seconds() for each in predicted.attempts] == attempts
    assert (predicted.state, predicted.at.total_seconds()) == (state, at)
    assert (predicted.blob_at is None) is (state != L)


def test_the_attempt_that_was_answered_late_is_the_last() -> None:
    (attempt,) = forecast(["200"], terms(), timedelta(seconds=35)).attempts

    assert (attempt.outcome, attempt.next_at) == ("Delivered", None)
    assert attempt.why == "a late success, after 35 s: what was to follow is cancelled"


def test_an_answer_that_is_none_is_refused_however_long_it_takes() -> None:
    with pytest.raises(ValueError, match="neither a status"):
        forecast(["perhaps"], terms(), timedelta(seconds=35))
