"""Command lines and settings with which the host does not start: one line each."""

import contextlib
import os
import socket

import pytest

from devhost import cli
from devhost.cli import _parser, _plan, main
from devhost.errors import HostError
from devhost.http.server import reachable, sole_host
from devhost.log import LineOutput

pytestmark = pytest.mark.usefixtures("untouched_logging")


@pytest.mark.parametrize(
    ("host_json", "arguments", "line"),
    [
        ("{", (), "host.json is not JSON: Expecting"),
        ('{"version": "1.0"}', (), 'host.json must say "version": "2.0"'),
        (
            '{"version": "2.0"}',
            ("--azurite", "--env", "AzureWebJobsStorage=UseDevelopmentStorage=true"),
            "--azurite and --env AzureWebJobsStorage exclude each other",
        ),
        (
            '{"version": "2.0"}',
            ("--azurite", "--port", "{taken}"),
            "port {taken} is in use: choose another with --port",
        ),
    ],
    ids=["malformed", "version", "two storages", "port in use"],
)
def test_the_host_does_not_start(tmp_path, capsys, host_json, arguments, line):
    (tmp_path / "host.json").write_text(host_json)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        given = [each.format(taken=port) for each in arguments]

        assert main(["--root", str(tmp_path), *given]) == 1

    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert err.startswith(f"devhost: {line.format(taken=port)}")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--port", "65536"), "--port: 65536 is not from 0 to 65535"),
        (("--host", "localhost"), "invalid IPv4Address value: 'localhost'"),
        (("--env", "=x"), "argument --env: not NAME=VALUE"),
        (("--workers", "0"), "0 is not from 1 to 64"),
        (("--invisibility", "0.5"), "0.5 is not from 1 to 604800"),
        (("--enable-auth",), "unrecognized arguments: --enable-auth"),
    ],
    ids=lambda each: each[0] if isinstance(each, tuple) else "",
)
def test_arguments_that_are_refused(capsys, arguments, words):
    with pytest.raises(SystemExit):
        main(arguments)

    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "warnings", "starts_by_hand", "reached"),
    [
        (["127.0.0.1"], 0, True, "127.0.0.1:7071"),
        (["127.0.0.2"], 0, True, "127.0.0.2:7071"),
        (["0.0.0.0"], 1, False, "127.0.0.1:7071"),  # noqa: S104 - nothing listens
        (["0.0.0.0", "--admin-functions"], 1, True, "127.0.0.1:7071"),  # noqa: S104
    ],
)
def test_listening_for_other_machines_is_said(
    tmp_path, capsys, monkeypatch, *, arguments, warnings, starts_by_hand, reached
):
    """Functions are not started by hand from there, unless that is asked for."""
    monkeypatch.setattr(os, "environ", {})
    (tmp_path / "host.json").write_text('{"version": "2.0"}')
    options = _parser().parse_args(["--root", str(tmp_path), "--host", *arguments])
    with contextlib.ExitStack() as stack:
        plan = _plan(options, LineOutput(), stack)

    assert (plan.address, plan.starts_by_hand) == (arguments[0], starts_by_hand)
    assert capsys.readouterr().out.count("other machines can send requests") == warnings
    assert reachable((plan.address, plan.port)) == reached


def test_a_port_has_one_host() -> None:
    """The system lets a second one bind it as well, until the first listens."""
    with contextlib.ExitStack() as stack:
        for port in (7999, 7998, 0, 0):
            stack.enter_context(sole_host(port, "127.0.0.1"))
        with pytest.raises(HostError, match="port 7999 is in use"):
            stack.enter_context(sole_host(7999, "127.0.0.1"))
    with sole_host(7999, "127.0.0.1"):
        pass


def test_workers_end_as_their_host_is_asked_to(tmp_path, monkeypatch):
    commands = []

    class Supervisor:
        def __init__(self, command, *_):
            commands.append(command)

        async def run(self):
            return 0

    monkeypatch.setattr(os, "environ", {})
    monkeypatch.setattr(cli, "Workers", Supervisor)
    (tmp_path / "host.json").write_text('{"version": "2.0"}')
    for given in ([], ["--ends-as-azure"]):
        assert main(["--root", str(tmp_path), "--port", "0", "--workers", "2", *given]) == 0

    assert ["--ends-as-azure" in each for each in commands] == [False, True]
