"""The server routes what the Functions app routes: each HTTP function has its rows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from server.routes import ROUTES, To, find

ROOT = Path(__file__).parents[3]
_TO = {
    "publish_function": To.PUBLISHING,
    "publish_namespace_function": To.PUBLISHING,
    "manage_function": To.MANAGING,
    "web_function": To.WEB,
}
_EVERY = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"}


def triggers() -> dict[str, tuple[str, set[str]]]:
    """Return route and methods of each HTTP function."""
    found = {}
    for path in ROOT.glob("*_function/function.json"):
        for each in json.loads(path.read_text())["bindings"]:
            if each["type"] == "httpTrigger":
                methods = {method.upper() for method in each["methods"]}
                found[path.parent.name] = each["route"], methods
    return found


def examples(route: str) -> list[tuple[str, dict[str, str]]]:
    """Return paths of a route with their parameters."""
    if areas := re.search(r"\^\((.+)\)\$", route):
        each = areas[1].split("|")
        bare = [(area, {"area": area}) for area in each]
        return bare + [(f"{area}/a/B", {"area": area, "path": "a/B"}) for area in each]
    path = re.sub(r"\{\*?(\w+)\}", r"x-\1", route)
    params = {name: f"x-{name}" for name in re.findall(r"\{\*?(\w+)\}", route)}
    return [(path, params), (path.upper(), {name: text.upper() for name, text in params.items()})]


@pytest.mark.parametrize("function", _TO)
def test_each_function_is_routed_with_its_methods_and_parameters(function):
    route, methods = triggers()[function]

    for path, params in examples(route):
        for method in _EVERY:
            is_its_own = find(method, path) == (_TO[function], params)
            assert is_its_own == (method in methods), (method, path)


def test_no_function_is_missing():
    assert triggers().keys() == _TO.keys()
    assert {route.to for route in ROUTES} == {*_TO.values(), To.BLOBS}


@pytest.mark.parametrize("path", ["", "admin", "topics", "x/topics/a/api/events", "topicsa/b"])
def test_other_paths_are_for_nobody(path):
    found = find("PUT", path)

    assert found is None
