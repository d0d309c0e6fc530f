"""
Routes the paths that are neither for events nor for resources: ``ROUTES`` has a row for each area.

The route in ``web_function/function.json`` names the same areas. A bare catch-all would take the
host's own pages and, on a host that orders routes differently, those of other functions.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Protocol

from shared.http import HttpAnswer, HttpRequest
from shared.wiring import settings


class Answers(Protocol):
    """Answers requests."""

    def run(self, request: HttpRequest) -> HttpAnswer:
        """Answer *request*; never raises."""


def _az_login() -> Answers:
    from shared.wiring.managing import az_login

    return az_login()


def _manage() -> Answers:
    from shared.wiring.managing import manage

    return manage()


def _console_files() -> Answers:
    from shared.wiring.operations import console_files

    return console_files()


def _status() -> Answers:
    from shared.wiring.operations import status

    return status()


def _validate() -> Answers:
    from shared.wiring.managing import validate

    return validate()


# By first segment: the methods, the rest of the path (its groups are parameters), and who answers.
ROUTES = {
    # Azure CLI asks here where to sign in, and signs in with the admin key.
    "metadata": ("GET", r"endpoints/?", _az_login),
    "adfs": ("GET POST", r".*", _az_login),
    # What the management API has for every Azure subscription.
    "providers": ("GET", r".*", _manage),
    # The page for operators, its styles and its scripts.
    "console": ("GET HEAD", r"(?P<file>.*)", _console_files),
    # Health for everybody; metrics in Prometheus' format and topics for whoever may read.
    "status": ("GET", r"(?P<what>.*)", _status),
    # The links and callbacks by which endpoints are validated.
    "validate": ("GET POST", r"(?P<id>[^/]+)/?", _validate),
}


def answer(request: HttpRequest) -> HttpAnswer:
    """
    Answer one request; without a row for it, 404 without a body as the host does.

    The console opens even if the settings are wrong, and shows what its calls answer.
    """
    area = request.params["area"].lower()
    methods, path, use_case = ROUTES[area]
    found = re.fullmatch(path, request.params.get("path", ""), re.DOTALL | re.IGNORECASE)
    if not found or request.method.upper() not in methods.split():
        return HttpAnswer(status=404)
    request = replace(request, params=found.groupdict())
    if area != "console":
        return (settings.misconfigured_api() or use_case()).run(request)
    is_off = not settings.settings_fault() and not settings.settings().console
    return HttpAnswer(status=404) if is_off else use_case().run(request)
