"""
Runs the examples in the JSON files here with Azure CLI; records their requests as conversations.

`make az` installs Azure CLI and runs this. The exit code is 1 if an example did something else.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from devhost.azurite import ACCOUNT, running_azurite
from devhost.process import running_host
from testbed.arm import ADMIN_KEY
from testbed.host_settings import host_settings
from testbed.subscriber import running_subscriber
from tests.az.conversation import write_conversation
from tests.az.examples import Example, Group, read_groups

_ROOT = Path(__file__).parents[2]
_BIN = _ROOT / ".az/bin"
_SECONDS = 300.0
_SHOWN = 1500  # characters of a fault


class Ran(NamedTuple):
    """A command that has ended: its exit code, output and errors."""

    code: int
    output: str
    errors: str


class Shell:
    """Runs commands one after the other; the variables that they assign are kept."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = dict(environ)
        self._kept = Path(environ["AZURE_CONFIG_DIR"]) / "variables"
        self._kept.write_text("")

    def run(self, command: str) -> Ran:
        kept = self._kept
        script = f". {kept}\ntrap 'code=$?; export -p >{kept}; exit $code' EXIT\n{command}"
        done = subprocess.run(
            ["/bin/sh", "-ac", script],
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)


def main() -> int:
    """Run all examples; return the exit code."""
    failed = 0
    with _deployment() as (environ, names):
        for group in read_groups():
            failed += _run(group, environ, names)
    print(f"{failed} failed" if failed else "every example does what its file says")
    return 1 if failed else 0


@contextlib.contextmanager
def _deployment() -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Run a host over https; yield the environment of `az`, and what is another in each run."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        os.environ["XDG_DATA_HOME"] = folder
        settings = host_settings(
            stack.enter_context(running_azurite()),
            PUSHGRID_AZ_LOGIN="true",
            PUSHGRID_CLIENT_IP_HEADER="X-Forwarded-For",
        )
        host = stack.enter_context(running_host(settings, options=["--tls"]))
        endpoint = stack.enter_context(running_subscriber()).url
        environ = {
            "PATH": f"{_BIN}:{os.environ['PATH']}",
            "HOME": folder,
            "PYTHONPATH": str(Path(__file__).with_name("recording")),
            "AZURE_CONFIG_DIR": f"{folder}/azure",
            "AZURE_CORE_COLLECT_TELEMETRY": "false",
            "AZURE_CORE_NO_COLOR": "true",
            "AZ_HOST": host.url,
            "AZ_RECORD": f"{folder}/record",
            "url": host.url,
            "key": ADMIN_KEY,
            "endpoint": endpoint,
            "account": ACCOUNT,
            **host.variables,
        }
        Path(environ["AZURE_CONFIG_DIR"]).mkdir()
        hostname = host.url.removeprefix("https://")
        names = {
            host.url: "{host}",
            hostname: "{hostname}",
            quote(hostname): "{hostname}",  # in a form
            endpoint: "{endpoint}",
            ADMIN_KEY: "{key}",
            ACCOUNT: "{account}",
        }
        yield environ, names


def _run(group: Group, environ: Mapping[str, str], names: Mapping[str, str]) -> int:
    """Run the examples of *group*, print how each did, and write their conversation."""
    name, record = f"az-{uuid.uuid4().hex[:8]}", Path(environ["AZ_RECORD"])
    shell = Shell({**environ, "group": name, "topic": name})
    record.write_text("")
    failed = 0
    print(f"\n{group.about}")
    for example in group.examples:
        began = time.monotonic()
        fault = _fault(example, shell.run(example.command))
        failed += fault is not None
        took = f"{time.monotonic() - began:4.1f} s"
        print(f"{'FAILED' if fault else 'ok':<6} {took}  {example.command}", flush=True)
        if fault:
            print(fault[:_SHOWN])
    if not failed:
        lines = record.read_text().splitlines()
        write_conversation(group.title, group.about, lines, {**names, name: "{name}"})
    return failed


def _fault(example: Example, ran: Ran) -> str | None:
    """Say what *example* did otherwise; ``None`` if nothing."""
    told = f"{ran.output}{ran.errors}"
    if ran.code != example.code:
        return f"exit code {ran.code}, not {example.code}: {told}"
    if example.says not in told:
        return f"{example.says!r} is not said: {told}"
    document = json.loads(ran.output) if example.shows else None
    for path, expected in example.shows.items():
        if (found := _member(document, path)) != expected:
            return f"{path} is {found!r}, not {expected!r}: {ran.output}"
    return None


def _member(document: Any, path: str) -> Any:
    """Return the member at *path*; ``None`` if there is none."""
    for name in path.split("."):
        match document:
            case list() if name == "length":
                document = len(document)
            case list() if name.isdecimal():
                document = document[int(name)] if int(name) < len(document) else None
            case dict():
                document = document.get(name)
            case _:
                return None
    return document


if __name__ == "__main__":
    sys.exit(main())
