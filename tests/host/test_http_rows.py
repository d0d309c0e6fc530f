"""Rows H1-H7 and H9: HTTP functions."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import socket
from collections.abc import Callable, Iterator
from urllib.parse import quote

import pytest

from tests.host.app import App
from tests.host.running import IS_DEVHOST, PATIENCE, Host, running
from tests.host.storage import Storage

_BODY_LIMIT = 104_857_600
_NOT_GIVEN = re.compile(r"; (domain=|path=/?)(?=;|$)")
_NO_SIZES = (b"zz", b"-4", b"+4", b"0x4", b"", b" 4", b"fffffffffffffffff")

# Deviations of the local host, which devhost/README.md names: another host does otherwise.
_only_here = pytest.mark.skipif(not IS_DEVHOST, reason="the local host alone does this")


@pytest.fixture(scope="module")
def host(new_app: Callable[[], App], settings: dict[str, str], storage: Storage) -> Iterator[Host]:
    app = new_app()
    app.http("Get", "get", methods=["get"])
    app.http("Bfn", "a/{id}")
    app.http("Cfn", "a/list")
    app.http("Number", "things/{id}/{name}")
    app.http("Rest", "files/{*rest}")
    app.http("Areas", "{area:regex(^(links|pages)$)}/{*rest}")
    app.http("Echo", "Echo")
    app.queue("H09", storage.queue("h09"))
    with running(app, settings) as started:
        yield started


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/get"), ("HEAD", "/get"), ("GET", "/nowhere")]
)
def test_h01_a_wrong_method_or_path_is_404(host, method, path):
    """
    H1: 404 and an empty body.

    Source: azure-functions-host WebScriptHostHttpRoutesManager.cs; host#10098, host#11625.
    """
    assert host.request("GET", "/get").status == 200

    answer = host.request(method, path)

    assert (answer.status, answer.body) == (404, b"")


def test_h02_of_overlapping_routes_the_first_function_by_name_wins(host):
    """
    H2: the first in the alphabet wins, not the more specific route.

    Source: azure-functions-host WebScriptHostHttpRoutesManager.cs; host#9876.
    """
    assert host.request("GET", "/a/list").json()["function"] == "Bfn"


@pytest.mark.parametrize(
    ("path", "function", "params"),
    [
        ("/things/12/x", "Number", {"id": "12", "name": "x"}),
        ("/THINGS/12/Ab", "Number", {"id": "12", "name": "Ab"}),
        ("/things/12", None, {}),
        ("/things/12/x/y", None, {}),
        ("/files/a/b/c.txt", "Rest", {"rest": "a/b/c.txt"}),
        ("/files", "Rest", {}),
        ("/Pages/a/b", "Areas", {"area": "Pages", "rest": "a/b"}),
        ("/links", "Areas", {"area": "links"}),
        ("/pagesx/a", None, {}),
        ("/a/x%2Fy", "Bfn", {"id": "x%2Fy"}),
        ("/a/x%20y", "Bfn", {"id": "x y"}),
        ("/nowhere/../a/./x", "Bfn", {"id": "x"}),
        (f"/a/{quote('ü')}", "Bfn", {"id": "ü"}),
    ],
    ids=str,
)
def test_h03_route_parameters(host, path, function, params):
    """
    H3: parameters of one segment, also constrained, and of the rest, capitals, `%2F` and spaces.

    Source: ASP.NET Core routing; docs, functions-bindings-http-webhook-trigger (2026).
    """
    answer = host.request("GET", path)

    if function is None:
        assert (answer.status, answer.body) == (404, b"")
    else:
        seen = answer.json()
        assert (seen["function"], seen["route_params"]) == (function, params)


@_only_here
@pytest.mark.parametrize(
    ("target", "function", "url"),
    [
        ("//a/x", "Bfn", "/a/x"),
        ("/a//x", "Bfn", "/a/x"),
        ("///files//a///b?c=//d", "Rest", "/files/a/b?c=//d"),
        ("http://localhost//a/x", "Bfn", "/a/x"),
        ("/a/x%2F%2Fy", "Bfn", "/a/x%2F%2Fy"),
    ],
)
def test_h03_doubled_slashes_count_as_one(host, target, function, url):
    """Clients join URLs carelessly."""
    head = f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    answer = _exchange(host, head.encode())

    seen = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert (seen["function"], seen["url"]) == (function, f"http://localhost{url}")


def test_h04_query_and_headers_as_one_value_each(host):
    """
    H4: an empty query value is dropped; repeated ones are joined by a comma, headers as well.

    Source: azure-functions-host Script.Grpc GrpcMessageConversionExtensions.cs (2024-10).
    """
    target = "/echo?empty=&one=1&many=1&many=2&text=a%20b"
    head = (
        f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{host.port}\r\n"
        "X-Many: 1\r\nX-MANY: 2\r\nConnection: close\r\n\r\n"
    )
    answer = _exchange(host, head.encode())

    assert answer.startswith(b"HTTP/1.1 200")
    seen = host.request("GET", target).json()
    assert seen["params"] == {"one": "1", "many": "1,2", "text": "a b"}
    assert b'"x-many": "1,2"' in answer or b'"x-many": "1, 2"' in answer


@pytest.mark.parametrize(
    ("version", "hosts", "status"),
    [("1.1", "", 400), ("1.1", "Host: a\r\nHost: b\r\n", 400), ("1.0", "", 500)],
    ids=["none", "two", "none in HTTP/1.0"],
)
def test_h04_a_request_names_one_host(host, version, hosts, status):
    """
    HTTP/1.0 allows none: the real host then fails to build the request's URL.

    Source: aspnetcore Kestrel Http1Connection.cs, EnsureHostHeaderExists (2024-10); measured.
    """
    head = f"GET /echo HTTP/{version}\r\n{hosts}Connection: close\r\n\r\n"
    answer = _exchange(host, head.encode())

    assert answer.startswith(f"HTTP/1.1 {status}".encode())


def test_h05_a_chunked_body(host):
    """
    H5: a body without Content-Length does not reach the function; the local host reads it.

    In Azure it does reach it: the front end gives it a length.
    Source: azure-functions-host#4926, #7930; azure-functions-python-worker#574.
    """
    seen = host.request("POST", "/echo", body=iter([b"some ", bytes(10**7)])).json()

    assert seen["length"] == (10**7 + 5 if IS_DEVHOST else 0)
    assert host.request("POST", "/echo", body=b"whole").json()["length"] == 5


_CHUNKED = "Transfer-Encoding: chunked"
_SOME = b"4\r\nsome\r\n"


@_only_here
@pytest.mark.parametrize(
    ("lines", "body", "status"),
    [
        ([_CHUNKED], _SOME + b"0\r\n\r\n", 200),
        (["Transfer-Encoding: CHUNKED"], _SOME + b"0\r\n\r\n", 200),
        ([_CHUNKED], b'4;a=b;c="d"\r\nsome\r\n000;last\r\n\r\n', 200),
        ([_CHUNKED], _SOME + b"0\r\nX-Late: 1\r\nHost: late.example\r\n\r\n", 200),
        ([_CHUNKED, "Content-Length: 4"], _SOME + b"0\r\n\r\n", 400),
        (["Content-Length: 4", _CHUNKED], _SOME + b"0\r\n\r\n", 400),
        ([_CHUNKED], _SOME + b"0\r\nContent-Length: 4\r\n\r\n", 400),
        ([_CHUNKED, _CHUNKED], _SOME + b"0\r\n\r\n", 400),
        (["Transfer-Encoding: gzip"], _SOME + b"0\r\n\r\n", 400),
        (["Transfer-Encoding: gzip, chunked"], _SOME + b"0\r\n\r\n", 501),
        *(([_CHUNKED], size + b"\r\nsome\r\n0\r\n\r\n", 400) for size in _NO_SIZES),
        ([_CHUNKED], b"4\r\nsome more\r\n0\r\n\r\n", 400),
        ([_CHUNKED], b"4\nsome\n0\n\n", 400),
    ],
)
def test_h05_what_is_no_chunked_body_is_refused(
    host: Host, lines: list[str], body: bytes, status: int
) -> None:
    """
    Neither the function nor what follows on the connection is to take one part for another.

    Source: RFC 9112, sections 6.1, 6.3 and 7.1.
    """
    before = len(host.calls("Echo"))

    answer = _post(host, lines, body, closes=status == 200)  # who refuses closes as well

    assert answer.startswith(f"HTTP/1.1 {status} ".encode()), answer
    assert len(host.calls("Echo")) == before + (status == 200)
    if status == 200:
        seen = json.loads(answer.partition(b"\r\n\r\n")[2])
        assert (seen["length"], seen["headers"]["host"]) == (4, "localhost")
        assert "x-late" not in seen["headers"]  # what comes after the body is no header


@_only_here
def test_h05_a_request_after_a_chunked_one_is_another(host):
    after = b"GET /echo?two=2 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

    answers = _post(host, [_CHUNKED], _SOME + b"0\r\n\r\n" + after, closes=False)

    assert answers.count(b"HTTP/1.1 200 OK") == 2
    assert b'"length": 4' in answers
    assert b'"two": "2"' in answers


@_only_here
@pytest.mark.parametrize(
    ("line", "before", "size", "end"),
    [
        (_CHUNKED, b"%x\r\n" % (_BODY_LIMIT + 1), _BODY_LIMIT + 1, b"\r\n0\r\n\r\n"),
        (f"Content-Length: {_BODY_LIMIT + 1}", b"", 4, b" more"),
    ],
    ids=["chunked", "with a length"],
)
def test_h06_who_is_still_sending_gets_the_refusal(host, line, before, size, end):
    """The end is sent after the answer was read: a host that waits for it never answers."""
    head = f"POST /echo HTTP/1.1\r\nHost: localhost\r\n{line}\r\n\r\n".encode()
    calls = len(host.calls("Echo"))
    with socket.create_connection(("127.0.0.1", host.port), timeout=PATIENCE) as client:
        client.sendall(head + before + bytes(size))
        answer = client.recv(4096)
        rest = b""
        with contextlib.suppress(ConnectionError):  # it waits for the end for 5 s
            client.sendall(end)
            rest = b"".join(iter(lambda: client.recv(4096), b""))

    assert answer.startswith(b"HTTP/1.1 500 ")
    assert b"connection: close" in answer
    assert b"HTTP/1.1" not in rest
    assert len(host.calls("Echo")) == calls


def _post(host: Host, lines: list[str], body: bytes, *, closes: bool) -> bytes:
    head = ["POST /echo HTTP/1.1", "Host: localhost", *lines, *(["Connection: close"] * closes)]
    return _exchange(host, "\r\n".join(head).encode() + b"\r\n\r\n" + body)


def _exchange(host: Host, sent: bytes) -> bytes:
    """Send bytes, and return all that comes back until the connection is closed."""
    with socket.create_connection(("127.0.0.1", host.port), timeout=PATIENCE) as client:
        client.sendall(sent)
        return b"".join(iter(lambda: client.recv(65536), b""))


def test_h06_a_body_over_100_mib_is_refused(host):
    """
    H6: 500 without a body for 104,857,601 bytes; one byte less is accepted.

    Source: azure-functions-host, FUNCTIONS_REQUEST_BODY_SIZE_LIMIT and its default (2024-10);
    measured, as Kestrel's own 413 does not get out.
    """
    assert host.request("POST", "/echo", body=bytes(_BODY_LIMIT)).json()["length"] == _BODY_LIMIT
    head, _, body = _answer_to_a_body(host, _BODY_LIMIT + 1).partition(b"\r\n\r\n")
    assert (head.split()[1], body) == (b"500", b"")


def _answer_to_a_body(host: Host, length: int) -> bytes:
    # Not with http.client: a host may answer and close before it has read the whole body.
    head = f"POST /echo HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", host.port), timeout=PATIENCE) as client:
        client.sendall(head.encode())
        part = bytes(1 << 20)
        left = length
        try:
            while left:
                left -= client.send(part[: min(left, len(part))])
        except OSError:
            assert left < length
        return client.recv(4096)


@pytest.mark.parametrize(
    ("do", "status", "headers", "body"),
    [
        ("raise", 500, {}, b""),
        ("none", 500, {}, b""),
        ("str", 200, {"content-type": ["text/plain; charset=utf-8"]}, "grüße".encode()),
        ("bytes", 200, {"content-type": ["application/octet-stream"]}, b"\x00\xff"),
        ("empty", 204, {}, b""),
        ("reset", 205, {}, b""),
        (
            "cookies",
            201,
            {"set-cookie": ["a=1; httponly", "b=2; secure"]},
            b"crumbs",
        ),
        ("unicode", 500, {}, b""),
        ("header", 418, {"x-plain": ["a b"]}, b"x"),
    ],
)
def test_h07_what_a_function_returns(host, do, status, headers, body):
    """
    H7: status, headers and body of each kind of answer.

    Source: azure-functions-host Script.Grpc GrpcMessageConversionExtensions.cs and
    Middleware/ExceptionMiddleware.cs; azure.functions http.py; the worker's own library.
    """
    answer = host.request("GET", f"/echo?do={do}")

    assert (answer.status, answer.body) == (status, body)
    for name, values in headers.items():
        # The real host also writes a cookie's domain and path where the function gave none.
        given = [_NOT_GIVEN.sub("", text.lower()) for text in answer.all(name)]
        assert given == values


def test_h09_a_function_started_by_hand(host):
    """
    H9: `POST /admin/functions/X` answers 202 and calls the function once with the input.

    Source: docs, functions-manually-run-non-http (2026); WebScriptHost FunctionsController.cs.
    """
    answer = host.request(
        "POST",
        "/admin/functions/H09",
        body=b'{"input": "by hand"}',
        headers={"Content-Type": "application/json"},
    )

    assert answer.status == 202
    host.wait_calls("H09", moment="end")
    (call,) = host.calls("H09")
    assert base64.b64decode(call["body"]) == b"by hand"
