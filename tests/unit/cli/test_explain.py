"""`cli explain` as a command: what it prints, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cli.__main__ import main
from tests.unit.cli.explaining import ALWAYS_503, SINCE_2020, begun, times

ROOT = Path(__file__).parents[3]


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
