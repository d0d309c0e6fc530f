"""The receivers of docs/receiving.md, with their languages' packages: what they refuse."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
import requests

from shared.delivery.requests.push_request import push_request
from shared.http import OutboundRequest
from shared.subscriptions.handshake import build_challenge
from shared.subscriptions.subscription import Batching
from testbed.subscriber import PATIENCE
from tests.builders import a_delivery, a_subscription, terms, text
from tests.clients.packages import (
    BESIDE_PYTHON,
    provide_go,
    provide_java,
    provide_javascript,
    require,
    run,
)
from tests.package_list import ROOT

PAGE = ROOT / "docs/receiving.md"
REFUSED_WITH = 503
OLD, NEW, FOREIGN = (f"whsec_{letter * 40}" for letter in "onf")


class Language(NamedTuple):
    """
    A language of the page: its *tool*, without which the test is skipped, and the program's *file*.

    *command* returns what runs it in a folder, after what has to be fetched or built.
    """

    fence: str
    tool: str
    file: str
    command: Callable[[Path], list[str]]


def _python(folder: Path) -> list[str]:
    return [sys.executable, str(folder / "receiver.py")]


def _javascript(folder: Path) -> list[str]:
    provide_javascript(folder)
    node = BESIDE_PYTHON / "node"
    return [str(node) if node.exists() else "node", str(folder / "receiver.mjs")]


def _go(folder: Path) -> list[str]:
    provide_go(folder)
    run(folder, "go", "build", "-o", "receiver", ".")
    return [str(folder / "receiver")]


def _java(folder: Path) -> list[str]:
    provide_java(folder)
    return ["java", "-cp", str(folder / "lib/*"), str(folder / "Receiver.java")]


LANGUAGES = [
    Language("python", "python", "receiver.py", _python),
    Language("javascript", "node", "receiver.mjs", _javascript),
    Language("go", "go", "main.go", _go),
    Language("java", "mvn", "Receiver.java", _java),
]


@pytest.fixture(scope="module", params=LANGUAGES, ids=lambda each: each.fence)
def receiver(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Run the page's program; return its URL."""
    language: Language = request.param
    require(language.tool)
    folder = tmp_path_factory.mktemp(language.fence)
    found = re.search(rf"```{language.fence}\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert found
    (folder / language.file).write_text(found[1], encoding="utf-8")
    with _running(language.command(folder)) as url:
        yield url


@contextmanager
def _running(command: list[str]) -> Iterator[str]:
    """Run a receiver, again while something else takes the port before it listens."""
    until = time.monotonic() + PATIENCE
    while True:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        environ = os.environ | {"PORT": str(port), "SIGNING_SECRET": NEW}
        process = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL)
        try:
            while process.poll() is None and not _refuses_what_is_not_signed(port):
                assert time.monotonic() < until, "it does not listen"
                time.sleep(0.1)
            if process.poll() is None:
                yield f"http://127.0.0.1:{port}/"
                return
        finally:
            process.kill()
            process.wait()
        assert time.monotonic() < until, "it has ended"


def _refuses_what_is_not_signed(port: int) -> bool:
    """Tell whether it is the receiver that answers, and not who had the port for a moment."""
    try:
        return answer(f"http://127.0.0.1:{port}/", signed(FOREIGN)).status_code == REFUSED_WITH
    except requests.RequestException:
        return False


def signed(*secrets: str, events: int = 1, age: timedelta = timedelta()) -> OutboundRequest:
    """Return a delivery as it is sent."""
    subscription = a_subscription(signing=secrets)
    batch = tuple(
        a_delivery(number, text=text(id=f"e-{number}", subject="grüße ☃ 💶"))
        for number in range(events)
    )
    rules = terms(batching=Batching(max_events=10))
    return push_request(subscription, rules, batch, datetime.now(UTC) - age)


def answer(url: str, request: OutboundRequest) -> requests.Response:
    return requests.post(url, data=request.body, headers=dict(request.headers), timeout=PATIENCE)


@pytest.mark.parametrize("secrets", [(NEW,), (OLD, NEW), (NEW, OLD)])
@pytest.mark.parametrize("events", [1, 3])
def test_it_takes_what_its_secret_has_signed(
    receiver: str, secrets: tuple[str, ...], events: int
) -> None:
    assert answer(receiver, signed(*secrets, events=events)).status_code == 200


REFUSED = {
    "a changed byte": lambda: _with_body(signed(NEW), signed(NEW).body.replace(b"e-0", b"e-1")),
    "an old timestamp": lambda: signed(NEW, age=timedelta(minutes=6)),
    "a timestamp ahead": lambda: signed(NEW, age=timedelta(minutes=-6)),
    "a foreign secret": lambda: signed(FOREIGN, OLD),
    "another id": lambda: _with_header(signed(NEW), "webhook-id", "other"),
    "another timestamp": lambda: _with_header(
        signed(NEW), "webhook-timestamp", str(int(time.time()) - 60)
    ),
    "no signature": signed,
    "a signature that is none": lambda: _with_header(signed(NEW), "webhook-signature", "v1,x"),
}


def _with_body(request: OutboundRequest, body: bytes) -> OutboundRequest:
    assert body != request.body
    return request._replace(body=body)


def _with_header(request: OutboundRequest, name: str, value: str) -> OutboundRequest:
    return request._replace(headers={**request.headers, name: value})


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED)
def test_it_refuses(receiver: str, make: Callable[[], OutboundRequest]) -> None:
    assert answer(receiver, make()).status_code == REFUSED_WITH
    assert answer(receiver, signed(NEW)).status_code == 200


def test_it_consents_to_the_handshake_which_is_not_signed(receiver: str) -> None:
    now = datetime.now(UTC)
    challenge = build_challenge(
        a_subscription(signing=(NEW,)), code="c0de", event_id="v-1", now=now, link=None
    )

    said = answer(receiver, challenge.request)

    assert "webhook-signature" not in challenge.request.headers
    assert (said.status_code, json.loads(said.content)) == (200, {"validationResponse": "c0de"})
