"""The management API in memory, reached by the command's own client."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import requests

from cli.deployment import Deployment
from cli.program import main
from tests.functional.manage.arm_api import HOST, KEY, ArmApi

Apply = Callable[..., tuple[int, list[str], str]]
Write = Callable[..., Path]


@pytest.fixture
def api() -> ArmApi:
    """A deployment for local use."""
    api = ArmApi()
    api.reconfigure(has_local_shortcuts=True)
    return api


@pytest.fixture
def deployment(api: ArmApi, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    """The client; its requests go to *api*, without a socket."""

    def answer(_: object, method: str, url: str, **options: Any) -> requests.Response:
        if asked := {k: v for k, v in (options.get("params") or {}).items() if v is not None}:
            url += f"?{urlencode(asked)}"
        headers = {name.lower(): value for name, value in options["headers"].items()}
        given = options.get("json")
        body = b"" if given is None else json.dumps(given).encode()
        answered = api.call(method, url, body, headers=headers)
        response = requests.Response()
        response.status_code = answered.status
        response._content = answered.body
        return response

    monkeypatch.setattr(requests.Session, "request", answer)
    return Deployment(url=HOST, token=lambda: KEY, scope="/subscriptions/s1/resourceGroups/rg")


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a configuration, as an object or as text; return its path."""

    def written(content: Any, name: str = "pushgrid.json") -> Path:
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2))
        return path

    return written


@pytest.fixture
def apply(deployment: Deployment, capsys: pytest.CaptureFixture[str]) -> Apply:
    """Run the command; return its exit code, its lines and its errors."""

    def run(*arguments: object) -> tuple[int, list[str], str]:
        options = ("--url", HOST, "--key", KEY, "--scope", deployment.scope)
        code = main(["apply", *map(str, arguments), *options])
        printed = capsys.readouterr()
        return code, printed.out.splitlines(), printed.err

    return run
