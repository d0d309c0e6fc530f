"""Requests and responses: what tests/host does not send, and the host's own pages."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import azure.functions as func
import pytest

from devhost.errors import BadFunctionError
from devhost.functions.invoke import Invoker
from devhost.http import app as http_app
from devhost.http.admin import Admin
from devhost.http.app import HttpApp


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


@pytest.fixture
def ask():
    """Send one request to an app of these functions."""

    def go(functions, target, *, method="GET", headers=(), body=b"", **options):
        url = urlsplit(target)
        ran = options.pop("ran", [])

        async def by_hand(function, text):
            ran.append((function.metadata.name, text))

        async def scene(threads: ThreadPoolExecutor) -> Answer:
            invoker = Invoker(threads=threads, timeout=None, report=lambda _: None)
            endpoints = [http_app.endpoint(each, "") for each in functions]
            starts = options.get("starts", True)
            admin = Admin(functions=functions, run=by_hand if starts else None, routes=endpoints)
            app = HttpApp(
                endpoints=endpoints,
                invoker=invoker,
                admin=admin,
                public_url=options.get("public_url", ""),
                body_limit=options.get("body_limit", http_app.BODY_LIMIT),
            )
            scope = {
                "type": "http",
                "http_version": "1.1",
                "method": method,
                "scheme": "http",
                "raw_path": url.path.encode(),
                "query_string": url.query.encode(),
                "headers": [
                    (b"host", options.get("host", "localhost:7071").encode("latin-1")),
                    *((name.encode(), value.encode()) for name, value in headers),
                    *([(b"content-length", str(len(body)).encode())] if body else []),
                ],
            }
            sent = []

            async def receive():
                return {"type": "http.request", "body": body, "more_body": False}

            async def send(message):
                sent.append(message)

            await app(scope, receive, send)
            await admin.drain()
            start, *parts = sent
            named = {name.decode(): value.decode() for name, value in start["headers"]}
            return Answer(start["status"], named, b"".join(each["body"] for each in parts))

        with ThreadPoolExecutor(1) as threads:
            return asyncio.run(scene(threads))

    return go


@pytest.fixture
def echo(http_function):
    """Return a function that answers."""
    return lambda **trigger: http_function(lambda _req: "x", **trigger)


def test_a_function_of_another_method_on_the_same_route_is_found(ask, http_function):
    get = http_function(lambda _req: "get", name="A", route="a", methods=frozenset(("GET",)))
    post = http_function(lambda _req: "post", name="B", route="a", methods=frozenset(("POST",)))

    assert ask([get, post], "/a", method="POST").body == b"post"


@pytest.mark.parametrize(("route", "prefix"), [(None, "Admin"), ("admin/x", "")])
def test_what_the_host_serves_itself_is_refused(http_function, route, prefix):
    with pytest.raises(BadFunctionError, match="is reserved for the host"):
        http_app.endpoint(http_function(route=route), prefix)
    assert http_app.endpoint(http_function(route="admin"), "api").route.template == "api/admin"


@pytest.mark.parametrize(
    "changes",
    [
        {"status_code": 42},
        {"status_code": 999},
        *({"headers": each} for each in ({"a b": "1"}, {"": "1"}, {"a": chr(1)})),
    ],
    ids=repr,
)
def test_a_response_that_cannot_be_sent_is_a_failure(ask, http_function, caplog, changes):
    function = http_function(lambda _req: func.HttpResponse("x", **changes))

    assert ask([function], "/web") == (500, {"content-length": "0"}, b"")
    assert "web returned a response that cannot" in caplog.messages[0]


def test_length_and_space_around_a_header_are_the_hosts(ask, http_function):
    headers = {"Content-Length": "99", "Content-Type": "a/b", "X-A": " 1 "}
    function = http_function(lambda _req: func.HttpResponse("x", headers=headers))

    sent = {"Content-Type": "a/b", "X-A": "1", "content-length": "1"}
    assert ask([function], "/web") == (200, sent, b"x")


def test_the_hosts_own_pages(ask, echo):
    functions = [echo(route="a<b/{id}", methods=frozenset(("GET", "PUT"))), echo(route="{*all}")]

    page = ask(functions, "/")

    assert (page.status, page.headers["content-type"]) == (200, "text/html")
    assert "\n/a&lt;b/{id}  [GET,PUT]\n/{*all}  [any method]\n" in page.body.decode()
    assert json.loads(ask(functions, "/admin/host/status").body)["state"] == "Running"
    assert ask(functions, "/admin/other").status == 404
    assert ask(functions, "/runtime/other", method="POST").status == 404


PUBLIC = "https://events.example/grid"


OURS = ("localhost:7071", "LocalHost", "localhost.", "orders.localhost:7071", "127.0.0.1:7071")
OTHERS = (
    *("events.example", "localhost.rebound.example", "notlocalhost", "10.0.0.1", "[", "", "\xe9"),
    *("127.0.0.1.rebound.example", "rebound.example@localhost", "localhost/rebound.example"),
    *("localhost@rebound.example", "[::1].attacker.example", "[::1]attacker.example:7071"),
    *(
        "localhost:7071.attacker.example",
        "\xe2\x84\x80.localhost",
        "\xff.localhost",
        "a<b.localhost",
    ),
)


@pytest.mark.parametrize(
    ("host", "public_url", "is_served"),
    [
        *((host, "", True) for host in (*OURS, "127.1.2.3", "[::1]:7071")),
        *((host, PUBLIC, True) for host in ("events.example", "Events.Example:443")),
        *((host, "", False) for host in OTHERS),
        ("rebound.example:7071", PUBLIC, False),
    ],
)
def test_only_requests_for_this_machine_are_answered(ask, echo, *, host, public_url, is_served):
    """A name that an attacker lets resolve to 127.0.0.1 (DNS rebinding) is in the Host header."""
    for path in ("/web", "/", "/admin/host/status"):
        answer = ask([echo()], path, host=host, public_url=public_url)
        assert answer.status == (200 if is_served else 400)
        assert is_served or b"PUSHGRID_PUBLIC_URL" in answer.body


@pytest.mark.parametrize(
    ("headers", "is_refused"),
    [
        ({}, False),
        ({"Origin": "http://localhost:7071"}, False),
        ({"Origin": "https://localhost:7071", "Sec-Fetch-Site": "same-origin"}, False),
        ({"Sec-Fetch-Site": "none"}, False),
        ({"Origin": "http://localhost:3000"}, True),
        ({"Origin": "https://page.example"}, True),
        ({"Origin": "null"}, True),
        ({"Origin": ""}, True),
        ({"Sec-Fetch-Site": "cross-site"}, True),
        ({"Sec-Fetch-Site": "same-site"}, True),
    ],
)
def test_pages_of_other_origins_do_not_reach_the_hosts_own(ask, echo, *, headers, is_refused):
    ran: list[tuple[str, str]] = []
    sent = list(headers.items())

    started = ask([echo()], "/admin/functions/web", method="POST", headers=sent, ran=ran)
    status = ask([echo()], "/admin/host/status", headers=sent)

    assert (started.status, status.status) == ((403, 403) if is_refused else (202, 200))
    assert bool(ran) != is_refused
    assert ask([echo()], "/web", headers=sent).status == 200


@pytest.mark.parametrize(
    ("path", "body", "status", "ran"),
    [
        ("Web", b'{"input": "hello"}', 202, [("web", "hello")]),
        ("web", b'{"input": {"a": 1}}', 202, [("web", '{"a": 1}')]),
        ("web", b"", 202, [("web", "")]),
        ("none", b"", 404, []),
        ("web", b"[" * 200_000, 400, []),
        ("web", b'{"input": "\\ud800"}', 400, []),
    ],
    ids=["text", "object", "nothing", "unknown", "too deep", "not UTF-8"],
)
def test_a_function_is_run_by_hand(ask, echo, *, path, body, status, ran):
    seen: list[tuple[str, str]] = []

    answer = ask([echo()], f"/admin/functions/{path}", method="POST", body=body, ran=seen)

    assert (answer.status, seen) == (status, ran)


def test_functions_are_not_run_by_hand_where_that_is_off(ask, echo, caplog):
    seen: list[tuple[str, str]] = []
    target = "/admin/functions/web"

    with caplog.at_level("INFO"):
        answer = ask([echo()], target, method="POST", body=b"{}", ran=seen, starts=False)

    assert (answer.status, seen) == (404, [])
    (line,) = caplog.messages
    assert line.startswith("404: POST /admin/functions is off")
    assert ask([echo()], "/admin/host/status", starts=False).status == 200


def test_a_body_over_the_limit_does_not_reach_the_function(ask, echo, caplog):
    def post(size: int) -> Any:
        return ask([echo()], "/web", method="POST", body=b"x" * size, body_limit=100)

    assert post(100).status == 200
    refused = post(101)
    assert (refused.status, refused.body) == (500, b"")
    (line,) = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert "100 bytes" in line
    assert "FUNCTIONS_REQUEST_BODY_SIZE_LIMIT" in line
