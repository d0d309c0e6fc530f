"""`pushgrid dev`, as a user starts it: one file, one process, and what it shows."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from azure.storage.blob import ContainerClient

from cli.program import main
from testbed.subscriber import PATIENCE, answers, running_subscriber
from tests.commands import Command, children, is_running
from tests.host.running import until

ROOT = Path(__file__).parents[2]


class Dev(Command):
    """A running `pushgrid dev`."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        command = [sys.executable, "-m", "cli", "dev", "--port", "0", *options]
        super().__init__(command, folder, os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "40"})

    @property
    def environment(self) -> dict[str, str]:
        """The environment with the variables that it tells clients to set."""
        told = (line.split("export ")[1] for line in self.lines if "export " in line)
        return os.environ | dict(shlex.split(each)[0].split("=", 1) for each in told)

    def write(self, text: str) -> None:
        """Save the file as editors do: another file takes its place."""
        new = self.folder / "pushgrid.json.new"
        new.write_text(text)
        new.replace(self.folder / "pushgrid.json")


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Dev]]:
    """Start it in a folder and for a user of their own."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "user"))
    folder = tmp_path / "shop"
    folder.mkdir()
    monkeypatch.chdir(folder)
    running: list[Dev] = []

    def started(*options: str) -> Dev:
        running.append(Dev(folder, *options))
        return running[-1]

    yield started
    for each in running:
        each.end()


def block(language: str) -> str:
    """Return the first block in a language of what the README says of an own topic."""
    text = (ROOT / "README.md").read_text("utf-8").split("## Your own topic\n")[1]
    return text.split(f"```{language}\n")[1].split("```")[0]


def names(found: list[dict[str, Any]]) -> list[str]:
    return [each["name"] for each in found]


def test_a_folder_with_a_file_becomes_a_deployment(
    start: Callable[..., Dev], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def pushgrid(*arguments: str) -> str:
        assert main([*arguments, "--url", url]) == 0
        return capsys.readouterr().out

    with running_subscriber(answers(503, 200)) as subscriber:
        file = block("json").replace("http://127.0.0.1:9000/", subscriber.url)
        (tmp_path / "shop/pushgrid.json").write_text(file)
        key = secrets.token_hex(16)
        dev = start(
            *("--tls", "--workers", "2", "--time-scale", "100"),
            *("--topic", "orders", "--topic", "shop.invoices"),
            *("--env", f"PUSHGRID_ADMIN_KEY={key}"),
        )
        url = dev.see("ready https://").split()[1]
        dev.see("storage", "temporary, discarded on exit")
        dev.see("time scale", "100: waits are so many times shorter than Event Grid's")
        beside = children(dev.process.pid)

        # Another command finds the key by itself, and what to verify the certificate by.
        pushgrid("publish", "orders", "--type", "Placed", "--subject", "/orders/17")

        dev.see("published", "orders", "1 event")
        dev.see("retry", "orders/crm", "503", "minimum for 503")
        dev.see("delivered", "orders/crm", "attempt 2: 200")
        assert not subscriber.handshakes

        program = block("python").replace("http://127.0.0.1:7071", url)
        subprocess.run([sys.executable, "-c", program], check=True, env=dev.environment)
        assert subscriber.wait_for(lambda pushes: pushes[-1].events[0]["data"] == {"total": 3})

        bundle = dev.environment["REQUESTS_CA_BUNDLE"]
        assert pushgrid("admin-key") == f"{key}\n"
        pushgrid("topic", "create", "by-hand")
        dev.write(file.replace('"orders"', '"billing"'))
        dev.see("applied", "billing/crm", "created event subscription")
        dev.see("applied", "orders ", "deleted topic")
        dev.see("applied", "deadletters", "created container")
        dev.write(file.replace('"orders"', '"billing"').replace("deadletters", "archive"))
        dev.see("applied", "archive", "created container")
        text = dev.environment["AZURE_STORAGE_CONNECTION_STRING"]
        assert ContainerClient.from_connection_string(text, "archive").exists()
        assert not [line for line in dev.lines if "there is no container" in line]
        assert requests.head(f"{url}/console", verify=bundle, timeout=60).status_code == 200
        assert len([line for line in dev.lines if "/topics/billing/api/" in line]) == 1

        dev.write('{\n  "topics": {\n    "orders": [\n')
        dev.see("pushgrid.json:4:")
        assert sorted(names(json.loads(pushgrid("topic", "list", "--json")))) == [
            "billing",
            "by-hand",
            "invoices",
        ]

        dev.process.send_signal(signal.SIGINT)
        assert dev.process.wait(PATIENCE) == 0
    assert {"azurite", "devhost"} <= {
        word for command in beside.values() for word in ("azurite", "devhost") if word in command
    }
    until(lambda: not [pid for pid in beside if is_running(pid)])
    assert dev.see("export REQUESTS_CA_BUNDLE=")
    assert key not in "\n".join(dev.lines)
    assert not list((tmp_path / "user").rglob("*.json"))
    assert not [line for line in dev.lines if "\x1b" in line or "Traceback" in line]


def test_a_file_that_is_uploaded_to_azurite_calls_a_webhook(
    start: Callable[..., Dev], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The guide's five commands, on free ports."""
    story = (ROOT / "docs/guide.md").read_text("utf-8").split("## Blob events\n")[1]
    commands = story.split("```sh\n")[1].split("```")[0].splitlines()
    program = story.split("```python\n")[1].split("```")[0]
    dev_command, listen_command, _, create, _ = [shlex.split(c, comments=True) for c in commands]
    dev = start(*dev_command[2:])
    url = dev.see("ready http://").split()[1]
    listening = [sys.executable, "-m", "cli", *listen_command[1:], "--json", "--port", "0"]
    with Command(listening, tmp_path, os.environ | {"PYTHONPATH": str(ROOT)}) as listen:
        address = listen.see("listening at").split()[-1]
        given = [address if each == "http://127.0.0.1:9000/" else each for each in create[1:]]
        assert main([*given, "--url", url]) == 0, capsys.readouterr()

        subprocess.run([sys.executable, "-c", program], check=True, env=dev.environment)

        told = json.loads(listen.see("cat.jpg"))
    (event,) = told["body"]
    assert event["subject"] == "/blobServices/default/containers/images/blobs/cat.jpg"
    assert (event["data"]["api"], event["data"]["contentLength"]) == ("PutBlob", 9)


def test_blob_events_need_one_process() -> None:
    command = [sys.executable, "-m", "devhost", "--blob-events", "--workers", "2"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)

    assert run.returncode == 1
    assert "--blob-events needs one process: leave --workers out" in run.stdout + run.stderr
