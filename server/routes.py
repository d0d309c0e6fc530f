"""
Routes requests to the app: ``ROUTES`` has a row for each HTTP function of the Functions app, and
one for blobs, which elsewhere the storage account answers.

A method that no row takes is 404 without a body, like an unknown path, as on Azure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from server.blobs import BLOBS
from shared.wiring.web_routes import ROUTES as WEB


class To(StrEnum):
    """Who answers."""

    PUBLISHING = "publishing"
    MANAGING = "managing"
    WEB = "web"
    BLOBS = "blobs"


class ServerRoute(NamedTuple):
    """A row: methods, and a pattern of decoded paths whose groups are parameters."""

    to: To
    methods: frozenset[str]
    path: re.Pattern[str]


def _route(to: To, methods: str, path: str) -> ServerRoute:
    return ServerRoute(
        to, frozenset(methods.split()), re.compile(f"{path}/?", re.IGNORECASE | re.DOTALL)
    )


_PUBLISHING = "GET POST PUT PATCH DELETE OPTIONS"
_AREAS = "|".join(sorted(WEB))
ROUTES = (
    _route(To.PUBLISHING, _PUBLISHING, r"topics/(?P<topic>[^/]+)/api/events"),
    _route(
        To.PUBLISHING, _PUBLISHING, r"namespaces/(?P<namespace>[^/]+)/topics(?:/(?P<action>.*))?"
    ),
    _route(To.MANAGING, "GET PUT PATCH POST DELETE", r"subscriptions(?:/(?P<path>.*))?"),
    _route(To.BLOBS, "GET HEAD", rf"{BLOBS}/(?P<container>[^/]+)/(?P<blob>.+)"),
    _route(To.WEB, "GET HEAD POST", rf"(?P<area>{_AREAS})(?:/(?P<path>.*))?"),
)


def find(method: str, path: str) -> tuple[To, Mapping[str, str]] | None:
    """Return who answers *method* at a decoded *path*, and with which parameters."""
    for route in ROUTES:
        if method in route.methods and (found := route.path.fullmatch(path)):
            given = found.groupdict()
            return route.to, {name: text for name, text in given.items() if text}
    return None
