"""What the command says when it is used without a command, or with a wrong one."""

import re
import sys

import pytest

from shared import VERSION
from tests.commands import Run


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
def test_without_a_command_it_says_what_there_is(run: Run, arguments: list[str], first: str):
    found = run(*arguments)

    line = found.err.splitlines()[0]
    assert (found.code, found.out) == (2, "")
    assert line.startswith(first) if first.startswith("Usage") else line == first


@pytest.mark.parametrize("argument", ["version", "--version"])
def test_the_version_is_printed(run: Run, argument: str):
    assert run(argument) == (0, f"pushgrid, version {VERSION}\n", "")


@pytest.mark.parametrize("group", ["", "dead-letters", "namespace", "subscription", "topic"])
def test_no_summary_is_cut(run: Run, group: str):
    _, commands = run(*group.split(), "--help").out.split("Commands:\n")

    assert [line for line in commands.splitlines() if line.endswith("...")] == []


def test_a_command_without_its_packages_says_what_to_install(
    run: Run, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "devhost.azurite", None)
    monkeypatch.delitem(sys.modules, "cli.local.demo", raising=False)
    monkeypatch.delitem(sys.modules, "cli.local.local_deployment", raising=False)

    said = "pushgrid: demo: there is no 'devhost.azurite': pip install 'pushgrid[local]'\n"
    assert run("demo", "--once") == (2, "", said)
    assert re.search("demo +Not installed", run("--help").out)


def test_the_server_needs_its_own_extra_alone(run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "apsw", None)
    for each in ("cli.serve", "server.sqlite_home"):
        monkeypatch.delitem(sys.modules, each, raising=False)

    said = "pushgrid: serve: there is no 'apsw': pip install 'pushgrid[serve]'\n"
    assert run("serve", "--data", "folder") == (2, "", said)
