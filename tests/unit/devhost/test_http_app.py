"""Requests and answers, quirk for quirk."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import azure.functions as func
import pytest

from devhost.errors import BadFunctionError
from devhost.functions.invoke import Invoker
from devhost.http import app as http_app
from devhost.http.admin import Admin
from devhost.http.app import HttpApp
from devhost.http.keys import Keys

KEYS = Keys(master="M", host="H", functions={"web": "F", "work": "W"})


class Answer:
    """What was sent to the client."""

    def __init__(self, messages: Any) -> None:
        start, body = messages
        self.status = start["status"]
        self.headers = [(name.decode(), value.decode()) for name, value in start["headers"]]
        self.body = body["body"]

    @property
    def triple(self):
        return self.status, dict(self.headers), self.body


@pytest.fixture
def ask():
    """Send one request to an app of these functions."""

    def go(functions, target, *, method="GET", headers=(), body=b"", parts=None, **options):
        url = urlsplit(target)
        keys = options.pop("keys", None)
        ran = options.pop("ran", [])

        async def by_hand(function, text):
            ran.append((function.metadata.name, text))

        async def scene(threads: ThreadPoolExecutor) -> Answer:
            invoker = Invoker(threads=threads, timeout=None, report=lambda _: None)
            endpoints = [http_app.endpoint(each, options.get("prefix", "")) for each in functions]
            admin = Admin(
                functions=functions,
                run=by_hand,
                keys=keys,
                status={"state": "Running"},
                routes=endpoints if options.get("home", True) else None,
            )
            app = HttpApp(
                endpoints=endpoints,
                invoker=invoker,
                admin=admin,
                keys=keys,
                body_limit=options.get("body_limit", 100),
            )
            scope = {
                "type": "http",
                "method": method,
                "scheme": "http",
                "raw_path": url.path.encode(),
                "query_string": url.query.encode(),
                "headers": [
                    (b"host", b"localhost:7071"),
                    *((name.encode(), value.encode()) for name, value in headers),
                    *([(b"content-length", str(len(body)).encode())] if body else []),
                ],
            }
            waiting = list(parts or [body])
            sent = []

            async def receive():
                part = waiting.pop(0)
                return {"type": "http.request", "body": part, "more_body": bool(waiting)}

            async def send(message):
                sent.append(message)

            await app(scope, receive, send)
            await admin.drain()
            return Answer(sent)

        with ThreadPoolExecutor(1) as threads:
            return asyncio.run(scene(threads))

    return go


@pytest.fixture
def echo(http_function):
    """A function that answers with what it saw."""

    def main(_req):
        seen = {
            "url": _req.url,
            "params": dict(_req.params),
            "route": dict(_req.route_params),
            "headers": dict(_req.headers),
            "body": _req.get_body().decode(),
        }
        return json.dumps(seen)

    def make(**trigger):
        return http_function(main, **trigger)

    return make


def test_what_the_function_sees(ask, echo):
    answer = ask(
        [echo(route="a/{p}")],
        "/a/x%2Fy%20z?one=1&none=&two=a&TWO=b+c",
        method="POST",
        headers=[("X-A", "1"), ("x-a", "2")],
        body=b"hello",
        parts=[b"he", b"llo"],
    )

    assert json.loads(answer.body) == {
        "url": "http://localhost:7071/a/x%2Fy%20z?one=1&none=&two=a&TWO=b+c",
        "params": {"one": "1", "two": "a,b c"},
        "route": {"p": "x%2Fy z"},
        "headers": {"host": "localhost:7071", "x-a": "1,2", "content-length": "5"},
        "body": "hello",
    }


def test_a_chunked_body_is_lost(ask, echo):
    answer = ask(
        [echo()],
        "/web",
        method="POST",
        headers=[("transfer-encoding", "chunked")],
        parts=[b"a", b"b"],
    )

    assert json.loads(answer.body)["body"] == ""


def test_a_body_over_the_limit_is_413(ask, echo):
    assert ask([echo()], "/web", method="POST", body=b"x" * 100).status == 200
    assert ask([echo()], "/web", method="POST", body=b"x" * 101).triple == (
        413,
        {"content-length": "0"},
        b"",
    )


@pytest.mark.parametrize(
    ("method", "target"),
    [("POST", "/web"), ("HEAD", "/web"), ("OPTIONS", "/web"), ("GET", "/other"), ("GET", "/web/x")],
)
def test_a_wrong_method_is_as_unknown_as_a_wrong_path(ask, echo, caplog, method, target):
    """The body is empty, as the real host's; the log says where the routes are listed."""
    with caplog.at_level("INFO"):
        answer = ask([echo(methods=frozenset(("GET",)))], target, method=method)

    assert answer.triple == (404, {"content-length": "0"}, b"")
    assert caplog.messages == [
        f"404: no function answers '{method} {target}'; GET / lists all routes"
    ]


def test_the_home_page_lists_the_routes(ask, echo):
    functions = [echo(route="a<b/{id}", methods=frozenset(("GET", "PUT"))), echo()]

    page = ask(functions, "/")

    assert (page.status, dict(page.headers)["content-type"]) == (200, "text/html")
    assert "\n/a&lt;b/{id}  [GET,PUT]\n/web  [any method]\n" in page.body.decode()
    assert ask(functions, "/", home=False).triple == (204, {}, b"")


def test_the_first_function_that_fits_wins(ask, http_function):
    first = http_function(lambda _req: "B", name="Bfn", route="a/{id}")
    second = http_function(lambda _req: "C", name="Cfn", route="a/list")

    assert ask([first, second], "/a/list").body == b"B"


def test_a_function_of_another_method_on_the_same_route_is_found(ask, http_function):
    get = http_function(lambda _req: "get", name="A", route="a", methods=frozenset(("GET",)))
    post = http_function(lambda _req: "post", name="B", route="a", methods=frozenset(("POST",)))

    assert ask([get, post], "/a", method="POST").body == b"post"


def test_route_prefix(ask, echo):
    assert ask([echo()], "/api/WEB", prefix="api").status == 200
    assert ask([echo()], "/web", prefix="api").status == 404


def test_a_reserved_prefix_is_refused(http_function):
    with pytest.raises(BadFunctionError, match="keeps for itself"):
        http_app.endpoint(http_function(), "Admin")
    assert http_app.endpoint(http_function(route="admin"), "api").route.template == "api/admin"


def test_reserved_routes_are_refused(http_function):
    with pytest.raises(BadFunctionError, match="keeps for itself"):
        http_app.endpoint(http_function(route="admin/x"), "")


def raises(_req):
    raise ValueError("boom")


def answers(*arguments: Any, **changes: Any) -> Any:
    return lambda _req: func.HttpResponse(*arguments, **changes)


FAILED = (500, {"content-length": "0"}, b"")
PLAIN = {"content-type": "text/plain; charset=utf-8"}


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        pytest.param(raises, FAILED, id="raise"),
        pytest.param(lambda _req: None, (500, {"content-length": "0"}, b""), id="none"),
        pytest.param(
            lambda _req: "héllo", (200, PLAIN | {"content-length": "6"}, "héllo".encode()), id="str"
        ),
        pytest.param(lambda _req: b"bytes", FAILED, id="bytes"),
        pytest.param(answers(), (200, PLAIN | {"content-length": "0"}, b""), id="empty"),
        pytest.param(
            answers(b"{}", status_code=202, mimetype="application/json", headers={"X-A": "1"}),
            (202, {"content-type": "application/json", "X-A": "1", "content-length": "2"}, b"{}"),
            id="json",
        ),
        pytest.param(answers(b"x", status_code=204), (204, PLAIN, b""), id="204"),
        pytest.param(
            answers("x", headers={"Content-Length": "99", "Content-Type": "a/b"}),
            (200, {"Content-Type": "a/b", "content-length": "1"}, b"x"),
            id="own length",
        ),
        pytest.param(answers(headers={"X-A": "ü"}), FAILED, id="unicode header"),
        pytest.param(answers(status_code=42), FAILED, id="status 42"),
    ],
)
def test_answers(ask, http_function, call, expected):
    assert ask([http_function(call)], "/web").triple == expected


def test_cookies_are_all_kept(ask, http_function):
    def main(_req):
        answer = func.HttpResponse("x")
        answer.headers.add("Set-Cookie", "a=1; Path=/")
        answer.headers.add("Set-Cookie", "b=2; HttpOnly")
        return answer

    headers = ask([http_function(main)], "/web").headers

    assert [value for name, value in headers if name == "Set-Cookie"] == [
        "a=1; Path=/",
        "b=2; HttpOnly",
    ]


@pytest.mark.parametrize(
    ("level", "headers", "target", "status"),
    [
        ("anonymous", [], "/web", 200),
        ("function", [], "/web", 401),
        ("function", [("x-functions-key", "wrong")], "/web", 401),
        ("function", [("x-functions-key", "F")], "/web", 200),
        ("function", [("x-functions-key", "W")], "/web", 401),
        ("function", [("x-functions-key", "H")], "/web", 200),
        ("function", [("x-functions-key", "M")], "/web", 200),
        ("function", [], "/web?code=F", 200),
        ("function", [("x-functions-key", "wrong")], "/web?code=F", 401),
        ("admin", [("x-functions-key", "F")], "/web", 401),
        ("admin", [("x-functions-key", "H")], "/web", 401),
        ("admin", [("x-functions-key", "M")], "/web", 200),
        ("anonymous", [], "/admin/host/status", 401),
        ("anonymous", [("x-functions-key", "M")], "/admin/host/status", 200),
        ("anonymous", [], "/admin/host/ping", 200),
    ],
)
def test_keys(ask, echo, *, level, headers, target, status):
    answer = ask([echo(auth_level=level)], target, headers=headers, keys=KEYS)

    assert answer.status == status
    assert status == 200 or answer.body == b""


def test_admin_pages(ask, echo):
    assert json.loads(ask([echo()], "/admin/host/status").body) == {"state": "Running"}
    assert ask([echo()], "/admin/host/ping", method="POST").status == 200
    assert [each["name"] for each in json.loads(ask([echo()], "/admin/functions").body)] == ["web"]
    assert ask([echo(route="{*all}")], "/admin/other").status == 404


def test_a_function_is_run_by_hand(ask, echo):
    ran: list[tuple[str, str]] = []
    body = b'{"input": "hello"}'

    answer = ask([echo()], "/admin/functions/Web", method="POST", body=body, ran=ran)

    assert answer.status == 202
    assert ran == [("web", "hello")]
    assert ask([echo()], "/admin/functions/none", method="POST").status == 404
    assert ask([echo()], "/admin/functions/web", method="POST", body=b"{").status == 400
