"""Damaged requests as bytes to the running app, and what HTTP itself allows and forbids."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
import requests
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from devhost.azurite import Azurite
from devhost.process import RunningHost, running_host
from testbed.arm import ADMIN_KEY
from testbed.host_settings import host_settings
from tests.functional.manage.arm_api import GROUP, ORDERS, TOPICS, VERSION
from tests.fuzz import damage
from tests.fuzz.documents import CLOUD_EVENT, EVENT, OTHERS, WRITES

REQUESTS = 100  # of thousands: the others spare themselves the way over HTTP
OPERATOR = {"authorization": f"Bearer {ADMIN_KEY}"}
#: None that has an endpoint: nobody is asked for consent here.
MANAGED = [
    each for each in (*WRITES, *OTHERS) if "endpointUrl" not in json.dumps(each.document or "")
]


class Answer(NamedTuple):
    """What came back; the document, if there is one."""

    status: int
    head: str
    document: Any


class App:
    """The running app with the topic ``orders``, and what of it is stored."""

    def __init__(self, host: RunningHost) -> None:
        self.host = host
        assert self._call("PUT", ORDERS, {"location": "x"}).status_code == 201
        keys = self._call("POST", f"{ORDERS}/listKeys").json()
        self.access = {"aeg-sas-key": keys["key1"]}
        self.stored = self._resources()

    def send(self, sent: damage.Sent) -> Answer:
        """Send bytes; what is refused must not change what is stored."""
        lines = [f"{sent.method} {sent.target} HTTP/1.1", "Host: localhost", "Connection: close"]
        lines += [f"Content-Length: {len(sent.body)}"]
        lines += [f"{name}: {value}" for name, value in sent.headers.items()]
        address = urlsplit(self.host.url)
        with socket.create_connection((address.hostname, address.port), 30) as connection:
            head = "\r\n".join(lines).encode("utf-8", "surrogatepass")
            received = _received(connection, head + b"\r\n\r\n" + sent.body)
        before, self.stored = self.stored, self._resources()
        answer = _parsed(received)
        if answer.status >= 400:
            assert self.stored == before
        return answer

    def _resources(self) -> Any:
        lists = (TOPICS, f"{GROUP}/namespaces")
        return [self._call("GET", path).json() for path in lists]

    def _call(self, method: str, path: str, body: Any = None) -> requests.Response:
        url = f"{self.host.url}{path}?{VERSION}"
        return requests.request(method, url, headers=OPERATOR, json=body, timeout=60)


def _received(connection: socket.socket, request: bytes) -> bytes:
    received = b""
    try:
        connection.sendall(request)
        while part := connection.recv(65536):
            received += part
    except ConnectionError:  # refused before it was read to its end
        pass
    return received


def _parsed(received: bytes) -> Answer:
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 "), received
    is_json = b"\r\ncontent-type: application/json" in head.lower()
    document = json.loads(body) if is_json and body else None
    return Answer(int(head.split()[1]), head.decode("latin-1"), document)


@pytest.fixture(scope="module")
def app(own_azurite: Azurite) -> Iterator[App]:
    with running_host(host_settings(own_azurite)) as host:
        yield App(host)
        assert "Traceback" not in "\n".join(host.lines)


def check(answer: Answer, members: set[str]) -> None:
    assert 200 <= answer.status < 500, answer
    if answer.status >= 400 and answer.document:
        assert set(answer.document["error"]) == members
        assert "x-ms-request-id" in answer.head.lower()


@settings(max_examples=REQUESTS, suppress_health_check=list(HealthCheck))
@given(sent=damage.managing(MANAGED, [OPERATOR, {}]))
def test_no_management_request_does_harm(app: App, sent: damage.Sent) -> None:
    check(app.send(sent), {"code", "message", "target", "details", "additionalInfo"})


@settings(max_examples=REQUESTS, suppress_health_check=list(HealthCheck))
@given(
    sent=damage.publishing(
        ("/topics/orders/api/events", "2018-01-01"), [[EVENT], [CLOUD_EVENT]], [{}]
    ),
    is_let_in=st.booleans(),
)
def test_no_publish_request_does_harm(app: App, sent: damage.Sent, *, is_let_in: bool) -> None:
    if is_let_in:
        sent.headers.update(app.access)

    check(app.send(sent), {"code", "message", "details"})


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(["Authorization: x", f"Authorization: Bearer {ADMIN_KEY}"], id="repeated"),
        pytest.param([f"X-{number}: {number}" for number in range(2000)], id="many"),
        pytest.param(["X: " + "x" * 200_000], id="long"),
        pytest.param(["Transfer-Encoding: chunked", "Content-Length: 5"], id="two lengths"),
        pytest.param(["Content-Length: -1"], id="no length"),
        pytest.param(["Content-Length: 99999999999999999999"], id="endless"),
        pytest.param(["no header"], id="no header"),
        pytest.param([" folded: 1"], id="folded"),
    ],
)
def test_odd_heads_are_refused(app: App, lines: list[str]) -> None:
    """Some can't be read as HTTP at all; the connection may end before the answer is read."""
    address = urlsplit(app.host.url)
    head = "\r\n".join([f"PUT {TOPICS}/other?{VERSION} HTTP/1.1", "Host: localhost", *lines])
    with socket.create_connection((address.hostname, address.port), 30) as connection:
        connection.settimeout(1)
        try:
            received = _received(connection, head.encode() + b"\r\nConnection: close\r\n\r\n")
        except TimeoutError:  # it still waits for what was announced
            received = b""

    assert not received or 400 <= _parsed(received).status < 500
    assert app._resources() == app.stored
