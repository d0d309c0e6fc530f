from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from tests.commands import Run, runner

URL = "http://127.0.0.1:1"
#: Returns the status and the document, or text, of an answer, for a path and its query.
Answer = Callable[[str, dict[str, Any]], tuple[int, object]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command in this process."""
    return runner(monkeypatch, capsys)


@pytest.fixture
def answer_with(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answer], None]:
    """Have all requests answered by a function."""

    def start(answer: Answer) -> None:
        def request(_: object, method: str, url: str, **options: Any) -> requests.Response:
            del method
            found = requests.Response()
            found.status_code, document = answer(urlsplit(url).path, options.get("params") or {})
            text = document if isinstance(document, str) else json.dumps(document)
            found._content = text.encode()
            return found

        monkeypatch.setattr(requests.Session, "request", request)

    return start


@pytest.fixture
def run_on(answer_with: Callable[[Answer], None], run: Run) -> Callable[..., Any]:
    """Run the command on a deployment at `URL` that gives the answers of a function."""

    def run_it(answer: Answer, *arguments: str) -> Any:
        answer_with(answer)
        return run(*arguments, "--url", URL, "--key", "k")

    return run_it
