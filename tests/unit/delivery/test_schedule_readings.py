"""Whether a schedule's numbers are waits or ages is a value of the row, not a branch."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.delivery.forecast import Forecast, forecast
from shared.delivery.policy import DeliveryTerms, EndReason
from shared.delivery.profile import DeliveryProfile
from shared.delivery.profiles import PROFILES

LATEST = PROFILES["latest"]
HALF_A_DAY = timedelta(hours=12)
# Contract §3.4, offset reading: "every 12 hours" are the ages of 12 and 24 hours.
BY_AGE = replace(
    LATEST,
    schedule=replace(
        LATEST.schedule,
        steps=tuple(
            timedelta(seconds=each)
            for each in (10, 30, 60, 300, 600, 1800, 3600, 10800, 21600, 43200)
        ),
        tail=HALF_A_DAY,
        by_age=True,
    ),
)
READINGS = pytest.mark.parametrize(
    "profile", [pytest.param(LATEST, id="waits"), pytest.param(BY_AGE, id="ages")]
)


def told(profile: DeliveryProfile, minutes: int, max_attempts: int = 30) -> Forecast:
    terms = DeliveryTerms(
        profile=profile, max_attempts=max_attempts, time_to_live=timedelta(minutes=minutes)
    )
    return forecast(["500"], terms)


def test_the_table_of_ages():
    story = told(BY_AGE, 1440)

    assert " ".join(str(each.at) for each in story.attempts) == (
        "0:00:00 0:00:10 0:00:30 0:01:00 0:05:00 0:10:00 0:30:00 1:00:00 3:00:00 6:00:00 12:00:00"
    )
    assert (story.at, story.reason) == (timedelta(hours=24), EndReason.TIME_TO_LIVE)


@READINGS
@pytest.mark.parametrize(
    ("minutes", "attempts"),
    [(1, 3), (2, 4), (5, 4), (10, 5), (20, 6), (30, 6), (60, 7), (120, 8), (1440, 11)],
)
def test_both_readings_agree_on_the_number_of_attempts(
    profile: DeliveryProfile, minutes: int, attempts: int
):
    assert len(told(profile, minutes).attempts) == attempts


def test_only_ages_make_30_minutes_literal():
    """The example of 2023: "events will be dead-lettered after 30 minutes"."""
    assert told(BY_AGE, 30, 10).at == timedelta(minutes=30)
    assert told(LATEST, 30, 10).at == timedelta(minutes=46, seconds=40)
