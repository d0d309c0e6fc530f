"""What the command says when it is used without a command, or with a wrong one."""

import pytest

from cli.program import main
from shared import VERSION


@pytest.mark.parametrize(
    ("arguments", "first"),
    [
        ([], "Usage: pushgrid [OPTIONS] COMMAND"),
        (["topic"], "Usage: pushgrid topic [OPTIONS] COMMAND"),
        (["dead-letter"], "pushgrid: No such command 'dead-letter'. Did you mean dead-letters?"),
        (["xyz"], "pushgrid: No such command 'xyz'."),
        (["topic", "rm"], "pushgrid topic: No such command 'rm'. Did you mean delete?"),
        (["subscription", "ls"], "pushgrid subscription: No such command 'ls'. Did you mean list?"),
        (["namespace", "shw"], "pushgrid namespace: No such command 'shw'. Did you mean show?"),
    ],
)
def test_without_a_command_it_says_what_there_is(capsys, arguments, first):
    assert main(arguments) == 2

    printed = capsys.readouterr()
    assert printed.out == ""
    line = printed.err.splitlines()[0]
    assert line.startswith(first) if first.startswith("Usage") else line == first


@pytest.mark.parametrize("argument", ["version", "--version"])
def test_the_version_is_printed(capsys, argument):
    assert main([argument]) == 0

    assert capsys.readouterr().out == f"pushgrid, version {VERSION}\n"


@pytest.mark.parametrize("group", ["", "dead-letters", "namespace", "subscription", "topic"])
def test_no_summary_is_cut(capsys, group):
    assert main([*group.split(), "--help"]) == 0

    _, commands = capsys.readouterr().out.split("Commands:\n")
    assert [line for line in commands.splitlines() if line.endswith("...")] == []
