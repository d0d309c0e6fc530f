"""Rows H1-H7 and H9: HTTP functions."""

from __future__ import annotations

import base64
import socket
from collections.abc import Callable, Iterator
from urllib.parse import quote

import pytest

from tests.host.app import App
from tests.host.running import PATIENCE, Host, running
from tests.host.storage import Storage

_BODY_LIMIT = 104_857_600


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
    with socket.create_connection(("127.0.0.1", host.port), timeout=PATIENCE) as client:
        client.sendall(head.encode())
        answer = b"".join(iter(lambda: client.recv(65536), b""))

    assert answer.startswith(b"HTTP/1.1 200")
    seen = host.request("GET", target).json()
    assert seen["params"] == {"one": "1", "many": "1,2", "text": "a b"}
    assert b'"x-many": "1,2"' in answer or b'"x-many": "1, 2"' in answer


@pytest.mark.parametrize(
    ("version", "hosts", "status"),
    [("1.1", "", 400), ("1.1", "Host: a\r\nHost: b\r\n", 400), ("1.0", "", 200)],
    ids=["none", "two", "none in HTTP/1.0"],
)
def test_h04_a_request_names_one_host(host, version, hosts, status):
    """Source: aspnetcore Kestrel Http1Connection.cs, EnsureHostHeaderExists (2024-10)."""
    head = f"GET /echo HTTP/{version}\r\n{hosts}Connection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", host.port), timeout=PATIENCE) as client:
        client.sendall(head.encode())
        answer = client.recv(65536)

    assert answer.startswith(f"HTTP/1.1 {status}".encode())


def test_h05_a_chunked_body_is_lost(host):
    """
    H5: a body without Content-Length does not reach the function.

    In Azure it does: the front end gives it a length.
    Source: azure-functions-host#4926, #7930; azure-functions-python-worker#574.
    """
    seen = host.request("POST", "/echo", body=iter([b"some ", bytes(10**7)])).json()

    assert seen["length"] == 0
    assert host.request("POST", "/echo", body=b"whole").json()["length"] == 5


def test_h06_a_body_over_100_mib_is_refused(host):
    """
    H6: 413 for 104,857,601 bytes; one byte less is accepted.

    Source: azure-functions-host, FUNCTIONS_REQUEST_BODY_SIZE_LIMIT and its default (2024-10).
    """
    assert host.request("POST", "/echo", body=bytes(_BODY_LIMIT)).json()["length"] == _BODY_LIMIT
    assert _status_of_a_body(host, _BODY_LIMIT + 1) == 413


def _status_of_a_body(host: Host, length: int) -> int:
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
        answer = client.recv(4096)
    return int(answer.split()[1])


@pytest.mark.parametrize(
    ("do", "status", "headers", "body"),
    [
        ("raise", 500, {}, b""),
        ("none", 500, {}, b""),
        ("str", 200, {"content-type": ["text/plain; charset=utf-8"]}, "grüße".encode()),
        ("bytes", 200, {"content-type": ["application/octet-stream"]}, b"\x00\xff"),
        ("empty", 204, {}, b""),
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
        # ASP.NET writes a cookie's path even where the function gave none.
        assert [text.lower().replace("; path=/", "") for text in answer.all(name)] == values


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
