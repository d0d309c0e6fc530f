"""What `explain` shows to people."""

from __future__ import annotations

import pytest

from cli.__main__ import main


def test_people_get_a_table(capsys: pytest.CaptureFixture[str]):
    assert main(["explain", "--profile", "latest", "--answers", "500", "--dead-letter"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Profile latest (edition of 2026-02-09, delivery-and-retry)"
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
