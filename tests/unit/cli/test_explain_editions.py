"""`cli explain` tells every table of contract §3.4, with the contract's own numbers."""

from __future__ import annotations

import pytest

from tests.unit.cli.explaining import (
    ALWAYS_408,
    ALWAYS_503,
    ALWAYS_TIMEOUT,
    BY_SCHEDULE,
    FIRST_OF_2019,
    FIVE_MINUTES,
    OF_2017,
    OF_NAMESPACES,
    SINCE_2020,
    begun,
    seconds,
    times,
)


@pytest.mark.parametrize("profile", SINCE_2020)
@pytest.mark.parametrize(
    ("answers", "options", "table"),
    [
        pytest.param("500", (), BY_SCHEDULE, id="schedule"),
        pytest.param("timeout", (), ALWAYS_TIMEOUT, id="timeout"),
        pytest.param("503", (), ALWAYS_503, id="503"),
        pytest.param("408", (), ALWAYS_408, id="408"),
        pytest.param("404", ("--endpoint", "azure"), FIVE_MINUTES, id="azure 404"),
        pytest.param("401", ("--endpoint", "azure"), FIVE_MINUTES, id="azure 401"),
    ],
)
def test_a_day_has_the_documented_attempts(
    explain, profile: str, answers: str, options: tuple[str, ...], table: str
):
    """Waits after the failure; 24 h are 11 attempts, and the end is noticed at the next slot."""
    told = explain(profile, answers, *options)

    expected = times(table)
    assert begun(told)[: len(expected)] == expected
    assert len(told["attempts"]) == 11
    assert (told["end"]["state"], told["end"]["reason"]) == ("dropped", "TimeToLiveExceeded")
    assert told["end"]["at"] == told["attempts"][-1]["next_at"] > 24 * 3600


@pytest.mark.parametrize("profile", ["2023", "latest"])
def test_a_webhook_s_404_waits_five_minutes(explain, profile: str):
    assert begun(explain(profile, "404")) == times(FIVE_MINUTES)


def test_the_end_of_a_day_is_noticed_at_the_twelfth_slot(explain):
    assert explain("latest", "500")["end"]["at"] == seconds("34:46:40")


@pytest.mark.parametrize("profile", SINCE_2020)
@pytest.mark.parametrize(
    ("minutes", "attempts"),
    [(1, 3), (2, 4), (5, 4), (10, 5), (20, 6), (30, 6), (60, 7), (120, 8), (1440, 11)],
)
def test_time_to_live_allows_so_many_attempts(explain, profile: str, minutes: int, attempts: int):
    told = explain(profile, "500", "--ttl-minutes", str(minutes))

    assert len(told["attempts"]) == attempts
    assert told["end"]["reason"] == "TimeToLiveExceeded"


@pytest.mark.parametrize("answers", ["500", "timeout"])
def test_2023_says_six_attempts_for_30_minutes(explain, answers: str):
    """A limit of 10 attempts "will have no impact"; the expiry shows at 46:40."""
    told = explain("2023", answers, "--ttl-minutes", "30", "--max-attempts", "10", "--dead-letter")

    assert len(told["attempts"]) == 6
    assert (told["end"]["state"], told["end"]["reason"]) == ("deadLettered", "TimeToLiveExceeded")
    if answers == "500":
        assert told["end"]["at"] == seconds("0:46:40")


def test_2017_has_eight_attempts_and_expires_at_two_hours(explain):
    told = explain("2017", "500")

    assert begun(told) == times(OF_2017)
    assert told["end"] == {
        "state": "dropped",
        "reason": "TimeToLiveExceeded",
        "at": seconds("2:00:00"),
        "blob_at": None,
    }


def test_2019_has_thirty_attempts_in_a_day(explain):
    """Hourly after 1:46:40; the 31st would come at 24:46:40, past the time to live."""
    told = explain("2019", "500")

    assert begun(told)[:11] == times(FIRST_OF_2019)
    assert len(told["attempts"]) == 30
    assert begun(told)[-1] == seconds("23:46:40")
    assert told["end"]["reason"] == "MaxDeliveryAttemptsExceeded"


@pytest.mark.parametrize(
    ("answers", "table"),
    [
        ("timeout", ALWAYS_TIMEOUT.split()[:8]),
        ("503", ALWAYS_503.split()),
        ("408", ALWAYS_408.split()),
        ("401", FIVE_MINUTES.split()[:8]),
        ("403", FIVE_MINUTES.split()[:8]),
        ("404", FIVE_MINUTES.split()[:8]),
        ("400", FIVE_MINUTES.split()[:8]),
    ],
)
def test_2019_has_the_same_minimums_until_its_hours(explain, answers: str, table: list[str]):
    assert begun(explain("2019", answers))[:8] == [seconds(each) for each in table]


def test_2017_waits_60_s_for_an_answer_and_knows_no_minimum(explain):
    assert begun(explain("2017", "timeout"))[:3] == times("0:00:00 0:01:10 0:02:40")
    assert begun(explain("2017", "503"))[:3] == times("0:00:00 0:00:10 0:00:40")


def test_namespaces_try_at_ages_and_end_with_the_tenth_attempt(explain):
    told = explain("ns", "500", "--dead-letter")

    assert begun(told) == times(OF_NAMESPACES)
    assert told["end"] == {
        "state": "deadLettered",
        "reason": "MaxDeliveryAttemptsExceeded",
        "at": seconds("0:30:00"),
        "blob_at": seconds("0:35:00"),
    }


def test_the_eighth_slot_of_namespaces_dead_letters_after_20_minutes(explain):
    told = explain("ns", "500", "--ttl-minutes", "20", "--max-attempts", "10", "--dead-letter")

    assert begun(told) == times(OF_NAMESPACES)[:7]
    assert told["attempts"][-1]["next_at"] == told["end"]["at"] == seconds("0:20:00")
    assert told["end"]["reason"] == "TimeToLiveExceeded"
