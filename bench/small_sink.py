"""
Runs a subscriber as people write their first one: Python's own server, which takes one connection
at a time, has an accept queue of five, and closes after each answer.

Its port is its first line of output; when so many requests as its argument says were answered, the
time of day is its second.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


class Handler(BaseHTTPRequestHandler):
    """Consents to validations and accepts events."""

    answered = 0
    awaited = 0

    def do_POST(self) -> None:
        (event, *_) = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        code = event["data"].get("validationCode")
        body = json.dumps({"validationResponse": code}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        Handler.answered += not code
        if Handler.answered == Handler.awaited:
            print(time.time(), flush=True)

    def log_message(self, *_: Any) -> None:
        pass


def main() -> None:
    """Serve until standard input ends."""
    Handler.awaited = int(sys.argv[1])
    server = HTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
