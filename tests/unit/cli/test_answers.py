"""Answers that no deployment gives: what the commands say of them, and what they send nowhere."""

from __future__ import annotations

import json
import re
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from cli import options
from cli.answers import document_of
from cli.local.local_deployment import HOME
from cli.subscription.document import gets_secret
from tests.answering import Answer, AnsweringServer
from tests.commands import Run, runner
from tests.serving import serving


@pytest.fixture
def server() -> Iterator[AnsweringServer]:
    with serving(AnsweringServer()) as server:
        yield server


@pytest.fixture
def pushgrid(
    server: AnsweringServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    return runner(monkeypatch, capsys, server.url, "k")


@pytest.mark.parametrize(
    "command",
    ["topic delete orders --yes", "topic update orders --tag a=b", "publish orders --type Placed"],
)
def test_nothing_is_done_behind_a_redirect(
    server: AnsweringServer, pushgrid: Run, command: str
) -> None:
    def answer(method: str, path: str) -> Answer:
        if method == "GET" or path.endswith("/listKeys"):
            return 200, {}, json.dumps({"properties": {}, "key1": "k"}).encode()
        return 302, {"Location": f"{server.url}/elsewhere"}, b""

    server.answer = answer

    found = pushgrid(*command.split())

    assert (found.code, found.out) == (1, "")
    assert f"the deployment is at {server.url}/elsewhere" in found.err
    assert "/elsewhere" not in [path for _, path in server.requests]


_COMMANDS = (
    "topic list",
    "topic create orders",
    "topic keys orders",
    "publish orders --type Placed",
    "subscription list",
    "dead-letters jobs",
    "namespace list",
    "status",
    "status --json",
    "top --once",
)
#: What an answer of success holds is read by each command; all others are read in one place.
_SUCCESSES = (b"<html>\x1b[2J</html>", b"[]", b"null", b'{"other": 1}')
_OTHERS = (
    (400, b'{"error": "x"}'),
    (503, b"<html></html>"),
    (503, b"\xef\xbb\xbf<html></html>"),
    (503, b'{"error": {"code": "x"}}'),
)


@pytest.mark.parametrize(
    ("command", "status", "body"),
    [
        *((command, 200, body) for command in _COMMANDS for body in _SUCCESSES),
        *((_COMMANDS[0], *answer) for answer in _OTHERS),
    ],
)
def test_what_is_no_answer_of_pushgrid_is_told_in_words(
    server: AnsweringServer, pushgrid: Run, command: str, status: int, body: bytes
) -> None:
    server.answer = lambda *_: (status, {}, body)

    found = pushgrid(*command.split())

    assert found.code == 1
    assert found.err.startswith("pushgrid: ")
    assert "\x1b" not in found.err
    assert "<html>" not in found.err


@pytest.mark.parametrize(
    "options", [["--key", "a\nb"], ["--key", "ß"], ["--url", "http://[::1"], ["--url", "x:y"]]
)
def test_no_wrong_option_is_a_fault_of_the_program(pushgrid: Run, options: list[str]) -> None:
    found = pushgrid("topic", "list", *options)

    assert (found.code, found.out) == (2, "")
    assert "a\nb" not in found.err


@pytest.mark.parametrize("command", [["topic", "list"], ["admin-key"]])
def test_a_password_in_the_url_is_not_shown(pushgrid: Run, command: list[str]) -> None:
    done = pushgrid(*command, "--url", "https://user:s3cret@events.example")

    assert done.code
    assert "s3cret" not in f"{done.out}{done.err}"


def test_that_nothing_listens_comes_before_a_missing_key(
    pushgrid: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: AnsweringServer
) -> None:
    monkeypatch.delenv("PUSHGRID_ADMIN_KEY")
    monkeypatch.chdir(tmp_path)
    server.answer = lambda *_: (404, {}, b"")

    nothing = pushgrid("topic", "list", "--url", "http://127.0.0.1:1")
    something = pushgrid("topic", "list")

    assert nothing.err.startswith("pushgrid: http://127.0.0.1:1 does not answer (")
    assert something.err.startswith("pushgrid: there is no admin key: give it with --admin-key")


REFERENCE = "For troubleshooting, visit https://aka.ms/esvalidation. Activity id:a-1, timestamp: "
REFERENCE += "2/9/2026 12:00:00 PM (UTC)."
FAILED = "Webhook validation handshake failed for http://a.test:9000/. "
POST = "Http POST request failed with response code"
REQUEST = "No such member. Request ID a-1."
MISSING = "The Resource 'Microsoft.EventGrid/"
IN_SHOP = "namespaces/shop/topics/a/eventSubscriptions/crm"
HELP = "Is it running?"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            f"{MISSING}topics/a%2Fb' under resource group 'local' was not found.",
            "there is no topic 'a/b': see 'pushgrid topic list'",
        ),
        (
            f"{MISSING}topics/as' under resource group 'rg' was not found; did you mean 'a-s'?",
            "there is no topic 'as'; did you mean 'a-s'?",
        ),
        (
            f"{MISSING}{IN_SHOP}' under resource group 'local' was not found.",
            "there is no event subscription 'crm' of 'shop.a': see 'pushgrid subscription list'",
        ),
        (
            f"{FAILED}{POST} Unknown (connection failed). {HELP} {REFERENCE}",
            f"handshake with http://a.test:9000/: connection failed. {HELP}",
        ),
        (
            f"{FAILED}{POST} NotFound. {HELP} {REFERENCE}",
            f"handshake with http://a.test:9000/: {POST} NotFound. {HELP}",
        ),
        (REQUEST, REQUEST),
    ],
)
def test_an_error_tells_the_cause_and_what_to_do_in_one_line(
    server: AnsweringServer, pushgrid: Run, said: str, shown: str
) -> None:
    error = {"code": "x", "message": said, "details": [{"code": "y", "message": said}]}
    server.answer = lambda *_: (400, {}, json.dumps({"error": error}).encode())

    assert pushgrid("topic", "show", "orders").err == f"pushgrid: 400 x: {shown}\n"


def test_what_an_endpoint_answered_to_the_handshake_is_printed(
    server: AnsweringServer, pushgrid: Run
) -> None:
    message = f"{FAILED}{POST} NotFound. {HELP} {REFERENCE}"
    said = "The endpoint answered: cannot find function: 'X' \x1b[2J"
    details = [{"code": "Url validation", "message": message}, {"code": "x", "message": said}]
    error = {"code": "Url validation", "message": message, "details": details}
    server.answer = lambda *_: (400, {}, json.dumps({"error": error}).encode())

    assert pushgrid("topic", "show", "orders").err == (
        f"pushgrid: 400 Url validation: handshake with http://a.test:9000/: {POST} NotFound. "
        f"{HELP}\n  The endpoint answered: cannot find function: 'X' \ufffd[2J\n"
    )


@pytest.mark.parametrize(
    ("options", "first"),
    [("--json", "[]"), ("-o json", "[]"), ("--output table", "There"), ("", "There")],
)
def test_json_is_asked_for_in_either_way(
    server: AnsweringServer, pushgrid: Run, options: str, first: str
) -> None:
    server.answer = lambda *_: (200, {}, b'{"value": []}')

    assert pushgrid("topic", "list", *options.split()).out.split()[0] == first


@pytest.mark.parametrize(
    ("scheme", "line"),
    [("https", b"HTTP/1.1 400 Bad Request\r\n\r\n"), ("http", b""), ("http", b"\x15\x03\x03")],
    ids=["https to http", "http to https, closed", "http to https, with an alert"],
)
def test_the_other_scheme_is_told(pushgrid: Run, scheme: str, line: bytes) -> None:
    class Other(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(4096)
            self.request.sendall(line)

    with serving(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Other)) as other:
        port = other.server_address[1]

        done = pushgrid("status", "--url", f"{scheme}://127.0.0.1:{port}")

    wanted = {"http": "https", "https": "http"}[scheme]
    assert done.code == 2
    assert f"use {wanted}://127.0.0.1:{port}" in done.err
    assert not re.search(r"_ssl|WRONG_VERSION|\w+\(", done.err)


def test_a_fault_is_told_once(server: AnsweringServer, pushgrid: Run) -> None:
    details = [{"code": "x", "message": text} for text in ("no a.", "no b.")]
    error = {"code": "x", "message": "no a. no b.", "details": details}
    server.answer = lambda *_: (400, {}, json.dumps({"error": error}).encode())

    assert pushgrid("topic", "list").err == "pushgrid: 400 x: no a. no b.\n"


def test_what_is_shown_and_not_sent_needs_no_key(
    server: AnsweringServer, pushgrid: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("PUSHGRID_ADMIN_KEY")
    monkeypatch.chdir(tmp_path)
    server.answer = lambda *_: (404, {}, b"")
    options = ("crm", "-t", "orders", "--endpoint", "https://crm.example/")

    shown = pushgrid("subscription", "create", *options, "--show-json")
    sent = pushgrid("subscription", "create", *options)

    assert (shown.code, sent.code) == (0, 2)
    assert "there is no admin key" in sent.err


def test_a_scope_is_no_part_of_the_host_s_name(server: AnsweringServer, pushgrid: Run) -> None:
    server.answer = lambda *_: (200, {}, b'{"value": []}')

    assert pushgrid("topic", "list", "--scope", "foo").code == 0
    kinds = ("topics", "systemTopics", "namespaces")
    asked = [("GET", f"/foo/providers/Microsoft.EventGrid/{kind}") for kind in kinds]
    assert server.requests == asked


class _Terminal:
    """Standard error of a terminal."""

    encoding = "utf-8"

    def __init__(self) -> None:
        self.has_text = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> None:
        if "waiting" in text:
            self.has_text.set()

    def flush(self) -> None:
        """Do nothing."""


def test_a_slow_answer_is_waited_for_visibly(
    server: AnsweringServer, pushgrid: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = _Terminal()
    monkeypatch.setattr(options, "_SILENT_SECONDS", 0.0)
    monkeypatch.setenv("TERM", "xterm")

    def answer(*_: str) -> Answer:
        assert terminal.has_text.wait(60)
        return 200, {}, b'{"value": []}'

    server.answer = answer
    monkeypatch.setattr("sys.stderr", terminal)

    assert pushgrid("topic", "list").code == 0


def test_a_full_disk_is_told() -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "cli", "schema"]
        done = subprocess.run(
            command, cwd=HOME, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )

    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "No space left" in done.stderr


def test_a_subscription_without_headers_gets_a_secret() -> None:
    """A read answer refuses a missing member that is needed; this one may be missing."""
    answer = requests.Response()
    answer._content = b'{"properties": {"destination": {"properties": {}}}}'
    attribute = {"name": "webhook-signature", "properties": {"value": "Generated"}}
    wanted = {"destination": {"properties": {"deliveryAttributeMappings": [attribute]}}}

    assert gets_secret(document_of(answer), {"properties": wanted})
