"""
Routes the paths that are for neither topics nor resources: ``ROUTES`` has a row for each area.

The route in ``web_function/function.json`` names the same areas. A bare catch-all would take the
host's own pages and, on a host that orders routes differently, those of other functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from shared.http import HttpAnswer, HttpRequest
from shared.wiring.function_app import APP

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
_OF_A_TOPIC = re.compile(r"(?P<topic>[^/]+)/api/events/?", re.IGNORECASE)


def answer(request: HttpRequest) -> HttpAnswer:
    """
    Answer one request, on a thread; without a row for it, 404 without a body as the host does.

    The console opens even if the settings are wrong, and shows what its calls answer.
    """
    APP.prepare()
    area = request.params["area"].lower()
    methods, path = ROUTES[area]
    found = re.fullmatch(path, request.params.get("path", ""), re.DOTALL | re.IGNORECASE)
    if not found or request.method.upper() not in methods.split():
        return HttpAnswer(status=404)
    if area in {"api", "topics"}:
        return _publish(request)
    request = replace(request, params=found.groupdict())
    if area != "console":
        return APP.refusal(request) or _use_case(area)(request)
    is_off = not APP.settings_fault and not APP.settings.console
    return HttpAnswer(status=404) if is_off else APP.console_files.run(request)


def _publish(request: HttpRequest) -> HttpAnswer:
    topic = _OF_A_TOPIC.fullmatch(request.params.get("path", ""))
    request = replace(request, params=topic.groupdict() if topic else {})
    return APP.threads.on_loop(APP.publish(request))


def _use_case(area: str) -> Callable[[HttpRequest], HttpAnswer]:
    if area == "providers":
        return APP.manage
    if area == "status":
        return APP.app.status.run
    if area == "validate":
        return APP.app.validate.run
    return APP.app.az_login.run  # metadata and adfs
