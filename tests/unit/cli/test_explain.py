"""`cli explain` as a command: every edition's times, what it prints, what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.commands import Run
from tests.conformance.editions import CASES, Case

Explain = Callable[..., dict[str, Any]]


@pytest.fixture
def explain(run: Run) -> Explain:
    """Return the document that the command prints."""

    def explained(profile: str, answers: str, *options: str) -> dict[str, Any]:
        found = run("explain", "--profile", profile, "--answers", answers, "--json", *options)
        assert (found.code, found.document["profile"]) == (0, profile)
        return dict(found.document)

    return explained


def options(case: Case) -> list[str]:
    names = {"eventTimeToLiveInMinutes": "--ttl-minutes", "maxDeliveryAttempts": "--max-attempts"}
    policy = [text for name, value in case.policy.items() for text in (names[name], str(value))]
    dead_letter = ["--dead-letter"] if case.has_dead_letter else []
    return ["--endpoint", case.endpoint, *policy, *dead_letter]


#: One of each edition and combination of options: `tests/conformance` has all on the same rules.
DISTINCT = {(case.profile, *options(case)[::2], case.endpoint): case for case in CASES}


@pytest.mark.parametrize("case", DISTINCT.values(), ids=str)
def test_every_edition_is_explained_as_documented(explain: Explain, case: Case) -> None:
    explained = explain(case.profile, ",".join(case.answers), *options(case))

    assert [each["at"] for each in explained["attempts"]] == list(case.attempts)
    assert explained["end"] == {
        "state": case.end.state,
        "reason": case.end.reason,
        "at": case.end.at,
        "blob_at": case.end.blob_at,
    }


def test_the_document_has_exactly_the_promised_members(explain: Explain) -> None:
    explained = explain("latest", "500,200")

    assert list(explained) == ["profile", "attempts", "end"]
    failed, taken = explained["attempts"]
    assert failed == {
        "number": 1,
        "at": 0.0,
        "answer": "500",
        "outcome": "GenericError",
        "next_at": 10.0,
        "why": failed["why"],
    }
    assert (taken["number"], taken["outcome"], taken["next_at"]) == (2, "Delivered", None)
    assert all(each["why"] for each in explained["attempts"])
    assert explained["end"] == {"state": "delivered", "reason": None, "at": 10.0, "blob_at": None}


@pytest.mark.parametrize(
    "wrong",
    [
        "--answers nonsense",
        "--answers 200,",
        "--answers 100",
        "--answers ٢٠٠",
        "--answers 500 --ttl-minutes 0",
        "--answers 500 --ttl-minutes 1441",
        "--answers 500 --ttl-minutes 999999999999999999999999999999",
        "--answers 500 --max-attempts 0",
        "--answers 500 --max-attempts 31",
        "--answers 500 --response-seconds -1",
        "--answers 500 --profile ns --max-attempts 11",
        "--answers 500 --profile 2017 --dead-letter",
        "--answers 500 --profile 2017 --max-attempts 8",
        "--answers 500 --profile 2017 --ttl-minutes 60",
        "--profile 2023",  # without the answers
    ],
)
def test_bad_arguments_are_refused_in_one_line(wrong: str, run: Run) -> None:
    found = run("explain", *wrong.split())

    assert (found.code, found.out, found.err.count("\n")) == (2, "", 1)
    assert found.err.startswith("pushgrid ")


def test_people_get_a_table(run: Run) -> None:
    found = run("explain", "--profile", "latest", "--answers", "500", "--dead-letter")

    lines = found.out.splitlines()
    assert lines[0] == 'Profile latest: "Event Grid message delivery and retry", 2026-02-09'
    column = lines[2].index("because of")
    assert all(line[column:].startswith("schedule") for line in lines[3:14])
    assert lines[13].split() == (
        ["11", "22:46:40", "500", "GenericError", "34:46:40", "schedule:", "every", "12", "h"]
    )
    assert lines[-2:] == [
        "34:46:40  deadLettered: TimeToLiveExceeded (older than 24 h)",
        "34:46:40  its blob is due",
    ]


def test_parts_of_a_second_are_shown(run: Run) -> None:
    found = run("explain", "--answers", "500,200", "--response-seconds", "0.25")

    assert "  2   0:00:10.250  200      Delivered" in found.out
