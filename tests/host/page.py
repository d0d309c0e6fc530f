"""A server that answers every request with the same page, as a captive proxy does."""

from __future__ import annotations

import contextlib
import http.server
from collections.abc import Iterator

from tests.serving import serving


@contextlib.contextmanager
def same_page(page: bytes, status: int = 200, **headers: str) -> Iterator[str]:
    """Answer every request with *page* during the block; yields the URL of an account there."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def __getattr__(self, name: str) -> object:
            if name.startswith("do_"):
                return self.answer
            raise AttributeError(name)

        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            for name, text in headers.items():
                self.send_header(name.replace("_", "-"), text)
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with serving(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}/a"
