"""
Routes the paths that are for neither topics nor resources: ``ROUTES`` has a row for each area.

The route in ``web_function/function.json`` names the same areas. A bare catch-all would take the
host's own pages and, on a host that orders routes differently, those of other functions.
Of the app it needs an `App` and what a home of it has beside that (`Served`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from shared.app import App
from shared.engine.operations.console_files import CONTENT_TYPES, ConsoleFiles
from shared.http import HttpAnswer, HttpRequest

# By first segment: the methods, and the rest of the path, whose groups are parameters.
ROUTES = {
    # Near a topic's path, which the answer names. The path itself leads to the same, in case a host
    # asks this function first.
    "api": ("POST", r"events/?"),
    "topics": ("POST", r"(?P<path>.*)"),
    # Azure CLI asks here where to sign in, and signs in with the admin key.
    "metadata": ("GET", r"endpoints/?"),
    "adfs": ("GET POST", r".*"),
    # What the management API has for every Azure subscription.
    "providers": ("GET", r".*"),
    # The page for operators, its styles and its scripts.
    "console": ("GET HEAD", r"(?P<file>.*)"),
    # Health for everybody; metrics in Prometheus' format and topics for whoever may read.
    "status": ("GET", r"(?P<what>.*)"),
    # The links and callbacks by which endpoints are validated.
    "validate": ("GET POST", r"(?P<id>[^/]+)/?"),
}
_OF_A_TOPIC = r"(?P<topic>[^/]+)/api/events/?"


class Served(Protocol):
    """A process that serves the app over HTTP, as far as the routes need to know it."""

    @property
    def app(self) -> App:
        """The use cases; asked for only if the settings are valid."""

    @property
    def console_files(self) -> ConsoleFiles:
        """The files of the console."""

    @property
    def has_console(self) -> bool:
        """Whether the console is served."""

    def prepare(self) -> None:
        """Prepare storage in the background, once."""

    def refusal(self, request: HttpRequest) -> HttpAnswer | None:
        """Answer in place of the app, if its settings are wrong."""

    def manage(self, request: HttpRequest) -> HttpAnswer:
        """Answer a request to the management API."""

    def publish(self, request: HttpRequest) -> Coroutine[Any, Any, HttpAnswer]:
        """Answer a publish request, on the event loop."""

    def on_loop(self, coroutine: Coroutine[Any, Any, HttpAnswer], /) -> HttpAnswer:
        """Have the event loop run *coroutine*; called on a thread."""


def answer(served: Served, request: HttpRequest) -> HttpAnswer:
    """
    Answer one request, on a thread; without a row for it, 404 without a body as the host does.

    The console opens even if the settings are wrong, and shows what its calls answer.
    """
    served.prepare()
    area = request.params["area"].lower()
    methods, path = ROUTES[area]
    found = re.fullmatch(path, request.params.get("path", ""), re.DOTALL | re.IGNORECASE)
    if not found or request.method.upper() not in methods.split():
        return HttpAnswer(status=404)
    if area in {"api", "topics"}:
        return _publish(served, request)
    request = replace(request, params=found.groupdict())
    if area != "console":
        return served.refusal(request) or _use_case(served, area)(request)
    return served.console_files.run(request) if served.has_console else HttpAnswer(status=404)


def read_console_files() -> ConsoleFiles:
    """Read the files of the console, which stand beside this package's."""
    folder = Path(__file__).parents[1] / "console"
    files = (each for each in folder.iterdir() if each.suffix in CONTENT_TYPES)
    return ConsoleFiles({each.name: each.read_bytes() for each in files})


def _publish(served: Served, request: HttpRequest) -> HttpAnswer:
    topic = re.fullmatch(_OF_A_TOPIC, request.params.get("path", ""), re.IGNORECASE)
    request = replace(request, params=topic.groupdict() if topic else {})
    return served.on_loop(served.publish(request))


def _use_case(served: Served, area: str) -> Callable[[HttpRequest], HttpAnswer]:
    if area == "providers":
        return served.manage
    if area == "status":
        return served.app.status.run
    if area == "validate":
        return served.app.validate.run
    return served.app.az_login.run  # metadata and adfs
