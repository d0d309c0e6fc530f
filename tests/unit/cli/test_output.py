"""Tables on terminals that are too narrow for them."""

from __future__ import annotations

import sys

import pytest

from cli.output import print_table

ROWS = [{"JOB": "20260209120000-5b0c6a0e", "BLOB": "CRM/2026/2/9/12/" + "b" * 40, "WHY": None}]


@pytest.mark.parametrize(("columns", "is_folded"), [(40, False), (70, True)])
def test_a_terminal_far_too_narrow_gets_a_line_for_each_member(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    columns: int,
    *,
    is_folded: bool,
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))

    print_table(ROWS * 2, "")

    lines = capsys.readouterr().out.splitlines()
    if is_folded:
        assert all(name in lines[0] for name in ROWS[0])
        return
    block = ["JOB   20260209120000-5b0c6a0e", f"BLOB  {ROWS[0]['BLOB']}", "WHY   -", ""]
    assert lines == block * 2
