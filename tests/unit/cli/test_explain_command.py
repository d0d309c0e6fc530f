"""What `explain` shows to people."""

from __future__ import annotations

import re

import pytest

from cli.__main__ import main
from shared.delivery.profiles import PROFILES


def test_people_get_a_table(capsys: pytest.CaptureFixture[str]):
    assert main(["explain", "--profile", "latest", "--answers", "500", "--dead-letter"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == 'Profile latest: "Event Grid message delivery and retry", 2026-02-09'
    assert [len(line.split("  ")) > 3 for line in lines[2:14]] == [True] * 12
    assert {line.index("because of") for line in lines[2:3]} == {
        line.index("schedule") for line in lines[3:14]
    }
    assert lines[13].split() == (
        ["11", "22:46:40", "500", "GenericError", "34:46:40", "schedule:", "every", "12", "h"]
    )
    assert lines[-2:] == [
        "34:46:40  deadLettered: TimeToLiveExceeded (older than 24 h)",
        "34:46:40  its blob is due",
    ]


@pytest.mark.parametrize("profile", PROFILES)
def test_an_edition_is_called_as_people_know_it(profile: str, capsys: pytest.CaptureFixture[str]):
    assert main(["explain", "--profile", profile, "--answers", "200"]) == 0

    told = capsys.readouterr().out.splitlines()[0]
    assert re.fullmatch(rf'Profile {profile}: "[A-Z][A-Za-z: ]+", 20\d\d-\d\d-\d\d', told)


def test_parts_of_a_second_are_shown(capsys: pytest.CaptureFixture[str]):
    assert main(["explain", "--answers", "500,200", "--response-seconds", "0.25"]) == 0

    assert "  2   0:00:10.250  200      Delivered" in capsys.readouterr().out


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stopped:
        main(["explain", "--help"])

    said = capsys.readouterr().out
    assert stopped.value.code == 0
    for option in ("profile", "endpoint", "answers", "ttl-minutes", "max-attempts"):
        assert f"--{option} " in said
    for option in ("dead-letter", "response-seconds", "json"):
        assert f"--{option}" in said
