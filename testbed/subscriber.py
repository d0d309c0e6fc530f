"""A scripted subscriber: answers pushes and handshakes as told, and keeps what it received."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, NamedTuple

_ORIGIN = "eventgrid.azure.net"
#: Seconds after which a wait ends for what does not come. Nothing is measured by it: no machine
#: that is merely busy needs a tenth of it.
PATIENCE = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """One request as received."""

    at: float  # Unix time
    path: str
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    @property
    def events(self) -> list[dict[str, Any]]:
        parsed = json.loads(self.body)
        return parsed if isinstance(parsed, list) else [parsed]


class Reply(NamedTuple):
    """An answer to a handshake, or to a push whose headers or body matter."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = {}


Answer = Callable[[Push], int | Reply]
Consent = Callable[[Push], Reply]


def consents(asked: Push) -> Reply:
    """Accept a validation handshake of Event Grid's schema or of CloudEvents."""
    if asked.body:
        code = asked.events[0]["data"]["validationCode"]
        return Reply(200, json.dumps({"validationResponse": code}).encode())
    return Reply(200, headers={"WebHook-Allowed-Origin": _ORIGIN, "WebHook-Allowed-Rate": "*"})


@dataclass(slots=True, kw_only=True)
class Subscriber:
    """A running subscriber."""

    url: str
    answer: Answer  # returns the status for a push
    consent: Consent  # returns the reply to a handshake
    take_notice: Callable[[Push], None]  # gets each deletion notice
    pushes: list[Push] = field(default_factory=list)
    handshakes: list[Push] = field(default_factory=list)
    notices: list[Push] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def receive(self, push: Push) -> int | Reply:
        with self._changed:
            self.pushes.append(push)
            self._changed.notify_all()
        return self.answer(push)

    def wait_for(self, enough: Callable[[list[Push]], bool], seconds: float = PATIENCE) -> bool:
        """Wait until the pushes so far are *enough*; return whether they became so in time."""
        with self._changed:
            return self._changed.wait_for(lambda: enough(self.pushes), seconds)


def answers(*statuses: int) -> Callable[[Push], int]:
    """Answer an event's first push with the first status, and so on; the last one repeats."""

    def answer(push: Push) -> int:
        count = int(push.headers["aeg-delivery-count"])
        return statuses[min(count, len(statuses) - 1)]

    return answer


@contextlib.contextmanager
def running_subscriber(
    answer: Answer | None = None,
    port: int = 0,
    consent: Consent = consents,
    take_notice: Callable[[Push], None] = lambda _: None,
) -> Iterator[Subscriber]:
    """Run a subscriber on this machine, on a free port for 0, until the block ends."""
    server = _Server(("127.0.0.1", port), _Handler)
    server.subscriber = Subscriber(
        url=f"http://127.0.0.1:{server.server_address[1]}/hook",
        answer=answer or answers(200),
        consent=consent,
        take_notice=take_notice,
    )
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server.subscriber
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        server.hang_up()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    subscriber: Subscriber

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self._open: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report what went wrong, but that a client has gone: it may have been killed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def hang_up(self) -> None:
        """Close the connections that clients keep open."""
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server
    _NO_BODY: ClassVar[frozenset[int]] = frozenset({204, 304})

    def do_OPTIONS(self) -> None:
        self._consent(self._received())

    def do_POST(self) -> None:
        push = self._received()
        match push.headers.get("aeg-event-type"):
            case "SubscriptionValidation":
                self._consent(push)
            case "SubscriptionDeletion":
                self.server.subscriber.notices.append(push)
                self.server.subscriber.take_notice(push)
                self._reply(200, b"", {})
            case _:
                found = self.server.subscriber.receive(push)
                self._reply(*(found if isinstance(found, Reply) else Reply(found)))

    def _consent(self, asked: Push) -> None:
        self.server.subscriber.handshakes.append(asked)
        self._reply(*self.server.subscriber.consent(asked))

    def _received(self) -> Push:
        at = time.time()
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        return Push(at=at, path=self.path, headers=headers, body=body)

    def _reply(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status not in self._NO_BODY:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if body:
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""
