"""`cli explain` tells every table of contract §3.4, with the contract's own numbers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.__main__ import main

ROOT = Path(__file__).parents[3]


SINCE_2020 = ("2020", "2023", "latest")


BY_SCHEDULE = (
    "0:00:00 0:00:10 0:00:40 0:01:40 0:06:40 0:16:40 0:46:40 1:46:40 4:46:40 10:46:40 22:46:40"
)


ALWAYS_TIMEOUT = (
    "0:00:00 0:00:40 0:01:40 0:03:10 0:08:40 0:19:10 0:49:40 1:50:10 4:50:40 10:51:10 22:51:40"
)


ALWAYS_503 = "0:00:00 0:00:30 0:01:00 0:02:00 0:07:00 0:17:00 0:47:00 1:47:00"


ALWAYS_408 = "0:00:00 0:02:00 0:04:00 0:06:00 0:11:00 0:21:00 0:51:00 1:51:00"


FIVE_MINUTES = (
    "0:00:00 0:05:00 0:10:00 0:15:00 0:20:00 0:30:00 1:00:00 2:00:00 5:00:00 11:00:00 23:00:00"
)


OF_2017 = "0:00:00 0:00:10 0:00:40 0:01:40 0:06:40 0:16:40 0:46:40 1:46:40"


FIRST_OF_2019 = f"{OF_2017} 2:46:40 3:46:40 4:46:40"


OF_NAMESPACES = "0:00:00 0:00:10 0:00:30 0:01:00 0:05:00 0:10:00 0:15:00 0:20:00 0:25:00 0:30:00"


@pytest.fixture
def explain(capsys: pytest.CaptureFixture[str]):
    """Run the command, and return the document that it prints."""

    def run(profile: str, answers: str, *options: str) -> dict[str, Any]:
        arguments = ["explain", "--profile", profile, "--answers", answers, "--json", *options]
        assert main(arguments) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["profile"] == profile
        return dict(document)

    return run


def seconds(clock: str) -> float:
    hours, minutes, rest = clock.split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(rest)


def times(table: str) -> list[float]:
    return [seconds(each) for each in table.split()]


def begun(document: dict[str, Any]) -> list[float]:
    return [each["at"] for each in document["attempts"]]


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


@pytest.mark.parametrize("profile", ["2017", "2019", *SINCE_2020, "ns"])
def test_the_document_has_exactly_the_promised_members(explain, profile: str):
    told = explain(profile, "500,200")

    assert list(told) == ["profile", "attempts", "end"]
    failed, taken = told["attempts"]
    assert failed == {
        "number": 1,
        "at": 0.0,
        "answer": "500",
        "outcome": "GenericError",
        "next_at": 10.0,
        "why": failed["why"],
    }
    assert (taken["number"], taken["outcome"], taken["next_at"]) == (2, "Delivered", None)
    assert all(each["why"] for each in told["attempts"])
    assert told["end"] == {"state": "delivered", "reason": None, "at": 10.0, "blob_at": None}


def test_the_example_of_the_readme_is_told(explain):
    told = explain("2023", "500", "--max-attempts", "7", "--dead-letter")

    assert told["end"] == {
        "state": "deadLettered",
        "reason": "MaxDeliveryAttemptsExceeded",
        "at": 2800.0,
        "blob_at": 3100.0,
    }


def test_every_time_has_its_rule(explain):
    told = explain("2023", "503,refused,timeout,408,500")

    assert [each["why"] for each in told["attempts"][:5]] == [
        "minimum for 503: 30 s",
        "schedule step 2: 30 s",
        "schedule step 3: 1 min",
        "schedule step 4: 5 min",
        "schedule step 5: 10 min",
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(("--answers", "nonsense"), id="unknown answer"),
        pytest.param(("--answers", ""), id="no answer"),
        pytest.param(("--answers", "200,"), id="empty answer"),
        pytest.param(("--answers", "-1"), id="negative answer"),
        pytest.param(("--answers", "100"), id="not final"),
        pytest.param(("--answers", "600"), id="no status"),
        pytest.param(("--answers", "0200"), id="four digits"),
        pytest.param(("--answers", "٢٠٠"), id="other digits"),
        pytest.param((), id="answers missing"),
        pytest.param(("--answers", "500", "--profile", "2018"), id="unknown profile"),
        pytest.param(("--answers", "500", "--endpoint", "queue"), id="unknown endpoint"),
        pytest.param(("--answers", "500", "--ttl-minutes", "0"), id="no time to live"),
        pytest.param(("--answers", "500", "--ttl-minutes", "-5"), id="negative time to live"),
        pytest.param(("--answers", "500", "--ttl-minutes", "1441"), id="too long"),
        pytest.param(("--answers", "500", "--ttl-minutes", "9" * 30), id="far too long"),
        pytest.param(("--answers", "500", "--ttl-minutes", "1.5"), id="half a minute"),
        pytest.param(("--answers", "500", "--max-attempts", "0"), id="no attempts"),
        pytest.param(("--answers", "500", "--max-attempts", "31"), id="too many attempts"),
        pytest.param(("--answers", "500", "--max-attempts", "-3"), id="negative attempts"),
        pytest.param(("--answers", "500", "--response-seconds", "-1"), id="negative seconds"),
        pytest.param(("--answers", "500", "--response-seconds", "nan"), id="no number"),
        pytest.param(("--answers", "500", "--response-seconds", "1e300"), id="ages"),
        pytest.param(("--answers", "500", "--profile", "ns", "--max-attempts", "11"), id="ns: 11"),
        pytest.param(("--answers", "500", "--profile", "2017", "--dead-letter"), id="2017: blobs"),
        pytest.param(
            ("--answers", "500", "--profile", "2017", "--max-attempts", "8"), id="2017: attempts"
        ),
        pytest.param(
            ("--answers", "500", "--profile", "2017", "--ttl-minutes", "60"), id="2017: an hour"
        ),
        pytest.param(("--answers", "500", "--unknown"), id="unknown option"),
    ],
)
def test_bad_arguments_are_told_in_one_line(
    wrong: tuple[str, ...], capsys: pytest.CaptureFixture[str]
):
    try:
        code: object = main(["explain", *wrong])
    except SystemExit as stopped:
        code = stopped.code

    said = capsys.readouterr()
    assert (code, said.out) == (2, "")
    assert said.err.startswith("python -m cli")
    assert said.err.count("\n") == 1


def test_the_command_runs_as_a_process():
    run = subprocess.run(
        [sys.executable, "-m", "cli", "explain", "--profile", "2023", "--answers", "503", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (run.returncode, run.stderr) == (0, "")
    assert begun(json.loads(run.stdout))[:8] == times(ALWAYS_503)
