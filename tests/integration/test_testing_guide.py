"""The examples of docs/testing.md run as they stand there, with the plugin of our wheel."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parents[2]
IMPORTS = """\
import json
import requests  # Its import of urllib3 tries IPv6 by a bind; this is for Azure's client.
from azure.core.credentials import AzureKeyCredential
from azure.eventgrid import EventGridEvent, EventGridPublisherClient
"""
OPTIONS = ["-q", "-p", "no:randomly", "-p", "no:cacheprovider", "--junitxml=result.xml"]
OPTIONS += ["-W", "error"]
#: No port, no program, no thread; and two tests that this is so, and what a test costs.
ALONE = """\
import socket, subprocess, threading
import pytest

class Forbidden(BaseException): pass

def forbidden(*arguments, **options):
    raise Forbidden

def no_program(popen, command, **options):
    # Azure's client asks it for its header User-Agent, and does without.
    raise FileNotFoundError if command[0] == "uname" else Forbidden

@pytest.fixture(autouse=True)
def alone(monkeypatch):
    for owner, name in (
        (socket.socket, "bind"), (socket.socket, "connect"), (socket, "getaddrinfo"),
        (threading.Thread, "start"),
    ):
        monkeypatch.setattr(owner, name, forbidden)
    monkeypatch.setattr(subprocess.Popen, "__init__", no_program)
"""
CONTROLS = """\
import socket, subprocess, threading
import pytest

def test_nothing():
    pass

def with_socket(method, address):
    with socket.socket() as opened:
        getattr(opened, method)(address)

@pytest.mark.parametrize("act", [
    lambda: with_socket("bind", ("127.0.0.1", 0)),
    lambda: with_socket("connect", ("127.0.0.1", 9)),
    lambda: subprocess.run(["node", "--version"]),
    lambda: threading.Thread(target=print).start(),
])
def test_it_is_forbidden(act):
    with pytest.raises(BaseException) as raised:
        act()
    assert type(raised.value).__name__ == "Forbidden"
"""


def test_the_examples_run_alone(tmp_path: Path, report: Callable[[str], None]) -> None:
    examples = re.findall(r"```python\n(.*?)```", (ROOT / "docs/testing.md").read_text(), re.DOTALL)
    (tmp_path / "test_examples.py").write_text("\n\n".join([IMPORTS, *examples]))
    (tmp_path / "test_controls.py").write_text(CONTROLS)
    (tmp_path / "conftest.py").write_text(ALONE)

    run = subprocess.run(
        [sys.executable, "-m", "pytest", *OPTIONS, "test_examples.py", "test_controls.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}", "PATH": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert run.returncode == 0, run.stdout + run.stderr
    cases = ET.parse(tmp_path / "result.xml").getroot().iter("testcase")  # noqa: S314
    seconds = {str(case.get("name")): float(case.get("time") or 0) for case in cases}
    assert len(seconds) == sum(each.count("def test_") for each in examples) + 5
    first, *others = [each for each in seconds if not each.startswith(("test_nothing", "test_it"))]
    report(
        f"docs/testing.md: first example {seconds[first]:.2f} s, imports included, "
        f"the {len(others)} others {sum(seconds[name] for name in others):.2f} s, "
        f"a test without the fixture {seconds['test_nothing']:.3f} s"
    )
