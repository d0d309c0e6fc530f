"""A server on loopback that answers as a test says, and keeps what it was asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, dict[str, str], bytes]


class AnsweringServer(ThreadingHTTPServer):
    """
    Answers with what *answer* returns for a method and a path.

    *requests* are what it got, *targets* with their queries, and *headers* what came with each.
    """

    def __init__(self, address: str = "127.0.0.1") -> None:
        self.answer: Callable[[str, str], Answer]
        self.requests: list[tuple[str, str]] = []
        self.targets: list[str] = []
        self.headers: list[Mapping[str, str]] = []
        super().__init__((address, 0), _Handler)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        return f"http://{self.server_address[0]!s}:{self.port}"


class _Handler(BaseHTTPRequestHandler):
    server: AnsweringServer

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self._answer
        raise AttributeError(name)

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.headers.append({name.lower(): each for name, each in self.headers.items()})
        self.server.targets.append(self.path)
        self.server.requests.append((self.command, self.path.partition("?")[0]))
        status, headers, body = self.server.answer(*self.server.requests[-1])
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""
