"""Makes apps and runs the host on them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.storage.queue import QueueClient

from devhost.azurite import Azurite
from tests.integration.devhost.program import Program

CHECKOUT = Path(__file__).parents[3]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Start the host on the app in tmp_path, with these arguments."""
    programs: list[Program] = []

    def go(*arguments: str, **environ: str) -> Program:
        clean = {
            name: text
            for name, text in os.environ.items()
            if not name.startswith(("AzureWebJobs", "AzureFunctionsJobHost", "PYTHON_THREADPOOL"))
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "devhost", "--root", str(tmp_path), "--port", "0", *arguments],
            cwd=CHECKOUT,
            env=clean | environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        programs.append(Program(process))
        return programs[-1]

    yield go
    for program in programs:
        program.process.kill()
        program.end()
        assert program.process.stdout is not None
        program.process.stdout.close()


@pytest.fixture
def function(tmp_path: Path) -> Callable[..., None]:
    """Add a function to the app in tmp_path."""
    host: dict[str, Any] = {
        "version": "2.0",
        "extensions": {
            "http": {"routePrefix": ""},
            "queues": {"messageEncoding": "none", "maxPollingInterval": "00:00:00.200"},
        },
    }
    (tmp_path / "host.json").write_text(json.dumps(host))

    def add(folder: str, source: str, **trigger: Any) -> None:
        bindings = [{"direction": "in", **trigger}]
        if trigger["type"] == "httpTrigger":
            bindings[0].setdefault("authLevel", "anonymous")
            bindings.append({"type": "http", "direction": "out", "name": "$return"})
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "function.json").write_text(json.dumps({"bindings": bindings}))
        (tmp_path / folder / "__init__.py").write_text(source)

    return add


@pytest.fixture
def queue(azurite: Azurite) -> Iterator[QueueClient]:
    """A queue of this test."""
    name = f"q{uuid.uuid4().hex}"
    with QueueClient.from_connection_string(azurite.connection_string, name) as client:
        client.create_queue()
        yield client
