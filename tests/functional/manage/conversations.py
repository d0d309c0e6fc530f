"""
Conversations with the management API as data: requests, and the answers that are expected.

A file of `tests/data/management` says what it is about, where that is known from, which requests
come before (``setup``), and has steps of a request (``send``) and its answer (``expect``).

In texts ``{rg}`` stands for the scope of a resource group, ``{name}`` for a name that nothing has,
``{host}`` for our own address, ``{hostname}`` for that without its scheme, ``{endpoint}`` for that
of a consenting endpoint, ``{account}`` for the app's storage account and ``{key}`` for the admin
key. In an answer every member counts, and 10 is not 10.0; its ``body`` may be that of an earlier
step (``as``). What can't be foreseen, or is no word of Event Grid's, is ``<uuid>``, ``<key>`` or
``<text>``, which can't be empty.

Those of Azure CLI (``az_*.json``) are recorded by `make az`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parents[2] / "data" / "management"
FILES = sorted(FOLDER.glob("*.json"))
assert FILES, "there are no conversations"
_UNFORESEEN = {
    "<uuid>": r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|id-[0-9]+",
    "<key>": r"[A-Za-z0-9+/]{43}=|key-[0-9]+",
    "<text>": r"(?s).+",
}
_API_VERSION = "2025-02-15"


class Answer(NamedTuple):
    """An answer; *document* ``None`` is no body."""

    status: int
    headers: Mapping[str, str]
    document: Any


Send = Callable[[str, str, bytes], Answer]  # method, target, body


def read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def play(conversation: Any, names: Mapping[str, str], send: Send) -> None:
    """Send each request; the answer must be as expected."""
    for given in conversation["setup"]:
        request = _named(given, names)
        answer = send(request["method"], target_of(request), _body_of(request))
        assert answer.status == 201, answer
    steps = conversation["steps"]
    for number, step in enumerate(steps, start=1):
        request, expected = _named(step["send"], names), _named(step["expect"], names)
        what = f"step {number}: {request['method']} {request['path']}"
        answer = send(request["method"], target_of(request), _body_of(request))

        assert answer.status == expected["status"], f"{what}: {answer}"
        if "as" in expected:
            expected |= _named(steps[expected["as"] - 1]["expect"], names) | expected
        fault = _differs(answer.document, expected.get("body"), "body")
        assert fault is None, f"{what}: {fault}"
        for name, value in expected.get("headers", {}).items():
            assert answer.headers.get(name) == value, f"{what}: {name}"


def target_of(request: Mapping[str, Any]) -> str:
    """Return path and query; an api-version of ``""`` is none."""
    version = request.get("apiVersion", _API_VERSION)
    query = [f"api-version={version}"] if version else []
    query += [f"{name}={value}" for name, value in request.get("query", {}).items()]
    return f"{request['path']}?{'&'.join(query)}" if query else str(request["path"])


def _body_of(request: Mapping[str, Any]) -> bytes:
    if "raw" in request:
        return str(request["raw"]).encode()
    return json.dumps(request["body"]).encode() if "body" in request else b""


def _named(value: Any, names: Mapping[str, str]) -> Any:
    """Put *names* in for what stands for them."""
    if isinstance(value, str):
        for name, text in names.items():
            value = value.replace(f"{{{name}}}", text)
        return value
    if isinstance(value, list):
        return [_named(each, names) for each in value]
    if isinstance(value, dict):
        return {_named(name, names): _named(each, names) for name, each in value.items()}
    return value


def _differs(found: Any, expected: Any, at: str) -> str | None:
    """Say where *found* isn't as expected; ``None`` if it is."""
    if isinstance(expected, str) and expected in _UNFORESEEN:
        fits = isinstance(found, str) and re.fullmatch(_UNFORESEEN[expected], found)
        return None if fits else f"{at} is {found!r}, not {expected}"
    if type(found) is not type(expected):
        return f"{at} is {found!r}, not {expected!r}"
    if isinstance(expected, dict):
        if set(found) != set(expected):
            return f"{at} has other members: {sorted(set(found) ^ set(expected))}"
        pairs = [(found[name], expected[name], f"{at}.{name}") for name in expected]
    elif isinstance(expected, list):
        if len(found) != len(expected):
            return f"{at} has {len(found)} items, not {len(expected)}"
        pairs = [(*pair, f"{at}[{n}]") for n, pair in enumerate(zip(found, expected, strict=True))]
    else:
        return None if found == expected else f"{at} is {found!r}, not {expected!r}"
    return next((fault for pair in pairs if (fault := _differs(*pair))), None)
