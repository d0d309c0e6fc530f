"""A storage service on a real socket that answers by a script."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

STORED = (
    b"<QueueMessagesList><QueueMessage><MessageId>1</MessageId>"
    b"<InsertionTime>Mon, 09 Feb 2026 12:00:00 GMT</InsertionTime>"
    b"<ExpirationTime>Fri, 31 Dec 9999 23:59:59 GMT</ExpirationTime><PopReceipt>r</PopReceipt>"
    b"<TimeNextVisible>Mon, 09 Feb 2026 12:00:00 GMT</TimeNextVisible>"
    b"</QueueMessage></QueueMessagesList>"
)


def utc_now() -> datetime:
    return datetime.now(UTC)


class Answer(NamedTuple):
    """
    What the storage answers; nothing at all with status 0.

    *cut* is how many bytes of the answer it keeps back when it closes the connection.
    """

    status: int
    code: str = ""
    body: bytes = b""
    retry_after: str = ""
    cut: int = 0


class ScriptedStorage(ThreadingHTTPServer):
    """A storage that answers by its script; the last answer repeats."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script: list[Answer] = [Answer(201, body=STORED)]
        self.choose: Callable[[bytes], Answer] = lambda _: self._next()
        self.requests: list[str] = []
        self.now = utc_now
        self._lock = threading.Lock()

    def _next(self) -> Answer:
        with self._lock:
            return self.script.pop(0) if len(self.script) > 1 else self.script[0]


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"

    def date_time_string(self, timestamp: float | None = None) -> str:
        """Return the header ``Date``, by the storage's clock."""
        del timestamp
        storage = self.server
        assert isinstance(storage, ScriptedStorage)
        return format_datetime(storage.now(), usegmt=True)

    def _answer(self) -> None:
        storage = self.server
        assert isinstance(storage, ScriptedStorage)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        storage.requests.append(f"{self.command} {self.path}")
        answer = storage.choose(body)
        if not answer.status:
            self.close_connection = True
            return
        client, self.wfile = self.wfile, io.BytesIO()
        self.send_response(answer.status)
        if answer.code:
            self.send_header("x-ms-error-code", answer.code)
        if answer.retry_after:
            self.send_header("Retry-After", answer.retry_after)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        whole, self.wfile = self.wfile.getvalue() + answer.body, client
        self.wfile.write(whole[: len(whole) - answer.cut])
        self.close_connection = answer.cut > 0

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass
