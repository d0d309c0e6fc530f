"""`pushgrid dev`: what it refuses before it starts anything, and how it prints."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from cli.local import dev, local_deployment
from cli.local.known_locally import LocalDeployment, find_local, local_key, recorded
from cli.local.local_deployment import ADMIN_KEY, HOME
from cli.local.narration import NarratedLine
from cli.local.screen import Screen
from devhost.process import RunningHost
from tests.answering import AnsweringServer
from tests.commands import Run
from tests.serving import serving

DELIVERED = NarratedLine(
    "delivered", "orders/crm", "attempt 1: 200 in 12 ms", "e-1", {"event": "x"}
)


WHERE = {"topic": "orders", "subscription": "crm"}


def logged(screen: Screen, **entry: object) -> None:
    """Have the host log an entry about `WHERE`, unless it names another."""
    screen.on_host_line(json.dumps(entry | WHERE | entry, separators=(",", ":")))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory and a user's data of their own; signals stay with the tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "user"))
    monkeypatch.setattr(dev, "end_on_signals", lambda: None)
    return tmp_path


@pytest.mark.parametrize(
    ("options", "contents", "words"),
    [
        ((), '{"topics": [', "pushgrid.json:1: "),
        ((), '{"topic": {}}', "pushgrid.json:1: "),
        (("--file", "none.json"), None, "none.json"),
        (("--env", "AzureWebJobsStorage=x"), None, "see --data"),
    ],
)
def test_a_wrong_command_starts_nothing(
    folder: Path, run: Run, options: tuple[str, ...], contents: str | None, words: str
) -> None:
    if contents:
        (folder / "pushgrid.json").write_text(contents)

    found = run("dev", *options)

    assert (found.code, found.out, found.err.count("\n")) == (2, "", 1)
    assert words in found.err


def test_a_port_in_use_is_named(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        found = run("dev", "--port", str(port))

    said = f"pushgrid: port {port} is in use: choose another with --port\n"
    assert found == (1, "", said)


def test_people_get_lines_without_colour_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Screen().tell(DELIVERED)

    line = capsys.readouterr().out
    assert line[8:] == f"  {'delivered':<13}  {'orders/crm':<20}  attempt 1: 200 in 12 ms  (e-1)\n"


def test_programs_get_a_document_in_each_line(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(as_json=True)

    screen.tell(DELIVERED)
    screen.ready("http://127.0.0.1:1")

    delivered, ready = map(json.loads, capsys.readouterr().out.splitlines())
    assert (delivered["kind"], delivered["about"]) == ("delivered", "orders/crm")
    assert (delivered["log"], delivered["text"]) == ({"event": "x"}, "attempt 1: 200 in 12 ms")
    assert (ready["kind"], ready["text"]) == ("ready", "http://127.0.0.1:1")


@pytest.mark.parametrize("as_json", [False, True])
def test_it_knows_when_nobody_reads(*, as_json: bool) -> None:
    """As after `pushgrid dev | head`: the host must not wait for a reader, and dev ends."""
    screen = f"from cli.local.screen import Screen; s = Screen(as_json={as_json})"
    program = f"{screen}; s.say('x'); s.say('y')"
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer) as unread:
        done = subprocess.run(
            [sys.executable, "-c", f"{program}; raise SystemExit(0 if s.has_reader else 7)"],
            cwd=HOME,
            stdout=unread,
            stderr=subprocess.PIPE,
            check=False,
        )

    assert (done.returncode, done.stderr) == (7, b"")


def test_a_host_s_log_is_printed_only_if_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    line = "12:00:00.000 INFO    azure.core  all is well"

    Screen().on_host_line(line)
    Screen(verbose=True).on_host_line(line)

    assert capsys.readouterr().out == f"{line}\n"


def test_a_pause_is_told_once_for_each_subscription(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen()

    held = {"event": "delivery.run", "held": 1, "held_until": "2026-02-09T12:00:40Z"}
    logged(screen, event="hold.began", by="me", subscription="web")
    for subscription, why in (
        ("crm", "paused since 12:00"),
        ("crm", "paused since 12:00"),
        ("erp", "paused since 12:00"),
        ("crm", "probation"),
        ("crm", "paused since 12:00"),
        ("crm", "paused since 12:05"),
        ("web", "paused since 12:00"),
        ("web", "paused since 12:05"),
    ):
        logged(screen, **held, subscription=subscription, held_because=why)

    told = [line.split()[2:] for line in capsys.readouterr().out.splitlines()]
    assert [(each[0], each[-1]) for each in told] == [
        ("orders/web", "resumed"),
        ("orders/crm", "12:00"),
        ("orders/erp", "12:00"),
        ("orders/crm", "probation"),
        ("orders/crm", "12:05"),
        ("orders/web", "12:05"),
    ]


def test_a_hold_is_told_when_it_begins_and_when_it_ends(
    capsys: pytest.CaptureFixture[str],
) -> None:
    screen = Screen()
    until, why = "2026-02-09T12:00:40Z", "probation for Busy: 10 s"
    logged(screen, event="hold.began", until=until, why=why)
    for _ in range(3):
        logged(screen, event="delivery.run", held=2, held_until=until, held_because=why)
    for _ in range(2):
        logged(screen, event="hold.ended", seconds=20, because="a success")

    began, released, again = (line[10:] for line in capsys.readouterr().out.splitlines())
    assert began.startswith("held ")
    assert "probation for Busy" in began
    assert released.endswith("after 20 s: a success; 6 deliveries held, repeats counted")
    assert again.endswith("after 20 s: a success")


def test_a_time_scale_stands_beside_each_wait_that_it_divides(
    capsys: pytest.CaptureFixture[str],
) -> None:
    until = "2026-02-09T12:00:40Z"
    tried = {"attempt": 1, "status": 503, "outcome": "Busy", "why": "minimum for 503: 30 s"}
    held = {"held": 1, "held_until": until}
    for entry in (
        {"event": "delivery.attempted", "decision": "retry", "next_attempt_at": until, **tried},
        {"event": "delivery.attempted", "decision": "end", "reason": "TooMany", **tried},
        {"event": "hold.began", "until": until, "why": "probation for Busy: 10 s"},
        {"event": "hold.ended", "seconds": 2, "because": "a success"},
        {"event": "delivery.run", **held, "held_because": "probation for Busy: 10 s"},
        {"event": "delivery.run", **held, "held_because": "paused since 12:00"},
    ):
        for scale in ("1", "20"):
            logged(Screen(time_scale=scale), **entry)

    lines = capsys.readouterr().out.splitlines()
    assert not [line for line in lines[::2] if "time scale" in line]
    told = [line.partition("; time scale ")[2] for line in lines[1::2]]
    assert told == ["20", "", "20", "", "20", ""]


def test_a_key_is_found_by_its_url_while_the_deployment_runs(run: Run) -> None:
    command = ("admin-key", "--url", "http://localhost:7079/")

    with recorded(LocalDeployment("http://127.0.0.1:7079", "k")) as path:
        assert run(*command) == (0, "k\n", "")
        assert find_local("http://127.0.0.1:7072") is None
        assert find_local("http://shop.example:7079") is None
        assert find_local("http://[::1].shop.example:7079") is None
        assert path.stat().st_mode & 0o777 == 0o600
    ended = run(*command)

    assert (ended.code, "'pushgrid serve' and 'pushgrid dev' record" in ended.err) == (1, True)


def test_a_key_is_that_of_the_nearest_settings(folder: Path) -> None:
    inner = folder / "a" / "b"
    inner.mkdir(parents=True)
    for each, key in ((folder, "far"), (folder / "a", "near")):
        (each / "local.settings.json").write_text(f'{{"Values": {{"{ADMIN_KEY}": "{key}"}}}}')

    assert local_key("http://127.0.0.1:7071", inner) == "near"
    assert local_key("http://shop.example:7071", inner) is None


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, "true"),
        ({"PUSHGRID_AZ_LOGIN": "false"}, "false"),
        ({"PUSHGRID_ENTRA_TENANT": "t"}, None),
        ({"PUSHGRID_ENTRA_JWKS_URL": "https://h/keys"}, None),
        ({"PUSHGRID_ENTRA_MANAGEMENT_AUDIENCE": "api://h"}, "true"),
    ],
)
def test_azure_cli_can_sign_in_unless_entra_id_is_on(
    given: dict[str, str], found: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a checkout: `make setup` has written its settings from the example."""
    example = json.loads((Path(__file__).parents[3] / "local.settings.example.json").read_text())[
        "Values"
    ]
    monkeypatch.setattr(dev, "own_settings", lambda: example)

    settings = example | dev._settings(given)

    assert settings.get("PUSHGRID_AZ_LOGIN") == found


def test_it_asks_its_own_deployment_over_http_at_any_address_by_the_key_that_commands_send(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`--host` may be an address that is not loopback; here the name alone says so."""
    (tmp_path / "admin-key").write_text("of-file\n")
    monkeypatch.setenv("PUSHGRID_ADMIN_KEY_FILE", str(tmp_path / "admin-key"))
    real = socket.getaddrinfo

    def look_up(_: str, *arguments: Any, **options: Any) -> Any:
        return real("127.0.0.1", *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    azurite = Mock(connection_string="x")
    monkeypatch.setattr(local_deployment, "running_azurite", lambda **_: nullcontext(azurite))
    with serving(AnsweringServer()) as server:
        host = RunningHost(process=Mock(), url=f"http://events.example:{server.port}")
        monkeypatch.setattr(local_deployment, "running_host", lambda *_, **__: nullcontext(host))

        with local_deployment.running_deployment({}, port=0, on_line=print) as run:
            server.answer = lambda *_: (200, {}, b'{"value": []}')
            assert run.api.list("topics") == []
            assert server.headers[-1]["authorization"] == "Bearer of-file"
