"""The command: its output and its exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.bicepcheck import __main__ as command
from tools.bicepcheck.check import LIMITS

EXAMPLE = Path(command.__file__).parent / "example"


def test_good_templates_pass_and_limits_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([str(EXAMPLE)]) == 0
    output = capsys.readouterr()
    assert (output.out, set(output.err.splitlines())) == (
        "",
        {f"unchecked: {limit}" for limit in LIMITS},
    )


def test_each_problem_is_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "main.bicep").write_text("var a = 1\noutput b strin = 'c'\n")
    assert command.main([str(tmp_path)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "main.bicep:1 unused nothing uses 'a'; delete it",
        "main.bicep:2 unknown-type there is no type 'strin'",
    ]


def test_json_is_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "main.bicep").write_text("var a = 1\n")
    assert command.main([str(tmp_path), "--json"]) == 1
    message = "nothing uses 'a'; delete it"
    assert json.loads(capsys.readouterr().out)["problems"] == [
        {"file": "main.bicep", "line": 1, "code": "unused", "message": message}
    ]


@pytest.mark.parametrize("name", ["nowhere", "main.bicep", None])
def test_a_folder_is_required(
    name: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "main.bicep").touch()
    with pytest.raises(SystemExit) as ended:
        command.main([str(tmp_path / name)] if name else [])
    assert ended.value.code == 2
    wanted = f"there is no folder {tmp_path / name}" if name else "required: DIR"
    assert wanted in capsys.readouterr().err
