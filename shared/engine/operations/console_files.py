"""Answers with the files of the console: a page, its styles and its scripts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from shared.arm.arm_json import error_answer
from shared.errors import NotFound
from shared.http import HttpAnswer, HttpRequest

CONTENT_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# Only files of the console run, and they talk only to the deployment that they come from.
# Trusted Types refuse what would read text as markup.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_PAGE = "index.html"
_HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}


class ConsoleFiles:
    """
    Serves files to anybody: they hold no data, and the page asks for the operator's key.

    *files* are their contents by path below ``console/``.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._answers = {path: _answer(path, body) for path, body in files.items()}

    def run(self, request: HttpRequest) -> HttpAnswer:
        """Answer *request*; without a path it is for the page."""
        path = request.params.get("file", "")
        if not path and urlsplit(request.url).path.endswith("/"):
            # The page names its files relative to a path without a slash at its end.
            return HttpAnswer(status=308, headers={**_HEADERS, "Location": "../console"})
        found = self._answers.get(path or _PAGE)
        if found is None:
            refused = error_answer(NotFound(f"The console has no file '{path}'."))
            return replace(refused, headers={**refused.headers, **_HEADERS})
        if request.headers.get("if-none-match") == found.headers["ETag"]:
            return HttpAnswer(status=304, headers=found.headers)
        return found


def _answer(path: str, body: bytes) -> HttpAnswer:
    own = {
        "Content-Type": CONTENT_TYPES[PurePosixPath(path).suffix],
        "ETag": f'"{sha256(body).hexdigest()[:32]}"',
    }
    return HttpAnswer(status=200, headers={**_HEADERS, **own}, body=body)
