"""What is printed: nothing that comes from elsewhere controls the terminal."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from rich.text import Text

import cli
from cli.configuration.source import FileFaults
from cli.failure import CommandFailed
from cli.local.narration import NarratedLine
from cli.local.screen import Screen
from cli.output import as_table, print_parts, print_table
from cli.terminal import print_json, say

#: C0, DEL and C1; a turn of the reading direction; half of a surrogate pair; a character that
#: JSON escapes as two.
CONTROLS = [*map(chr, (*range(0x20), *range(0x7F, 0xA0))), "\u202e", "\ud800", "\U000e0001"]
HOSTILE = f"\x1b]0;title\x07\x1b[2J\x9b31m{''.join(CONTROLS)}end"


def test_no_control_character_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    say(HOSTILE)
    say(HOSTILE, err=True, colour="red")
    print_table([{"NAME": HOSTILE}], "")
    print_parts(as_table([], HOSTILE), Text(HOSTILE, style="red"))
    CommandFailed(HOSTILE).show()
    FileFaults(HOSTILE).show()
    for as_json in (False, True):
        screen = Screen(as_json=as_json, verbose=True)
        screen.on_host_line(HOSTILE)
        screen.tell(NarratedLine("applied", HOSTILE, HOSTILE, HOSTILE, entry={HOSTILE: HOSTILE}))
        screen.show("topic", HOSTILE)
        screen.ready(HOSTILE)

    printed = "".join(capsys.readouterr())
    assert printed.count("end") > 15
    assert {each for each in printed if not each.isprintable()} == {"\n"}


def test_json_keeps_what_it_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({HOSTILE: HOSTILE})

    printed = capsys.readouterr().out
    assert {each for each in printed if not each.isprintable()} == {"\n"}
    assert json.loads(printed) == {HOSTILE: HOSTILE}


def test_a_fault_of_a_file_is_one_line() -> None:
    faults = FileFaults("a.json:1: one\na.json:2: forged", "a.json:3: two")

    assert faults.message.splitlines() == ["a.json:1: one\ufffda.json:2: forged", "a.json:3: two"]


def test_styles_remain(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    print_parts(Text("red\x1b[0m", style="red"))

    assert capsys.readouterr().out == "\x1b[31mred\ufffd[0m\x1b[0m\n"


def test_commands_print_in_no_other_way() -> None:
    """Each way past `cli.terminal` and the console of `cli.output`."""
    other = re.compile(
        r"click\.s?echo|(?<!\.)\bprint\(|std(out|err)\.write|rich(\.console)? import .*\b[cC]onsole"
    )
    folder = Path(cli.__file__).parent

    found = {path.name for path in folder.rglob("*.py") if other.search(path.read_text())}

    assert found == {"output.py", "terminal.py"}
