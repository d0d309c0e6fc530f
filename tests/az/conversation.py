"""Turns the recorded requests of Azure CLI into a conversation of `tests/data/management`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any
from urllib.parse import urlsplit

from tests.functional.manage.conversations import FOLDER

_UNFORESEEN = {"metricResourceId": "<uuid>", "key1": "<key>", "key2": "<key>"}
_WIDTH = 110


def write_conversation(
    title: str, about: str, record: Iterable[str], names: Mapping[str, str]
) -> None:
    """
    Write the lines of *record* as the file of *title*.

    *names* are texts that differ from run to run, and what stands for them.
    """
    steps: list[dict[str, Any]] = []
    bodies: list[Any] = []
    for line, _ in groupby(record):  # what is asked repeatedly stands once
        step = _step(json.loads(line), names)
        body = step["expect"].get("body")
        if body is not None and body in bodies:
            step["expect"] = {"status": step["expect"]["status"], "as": bodies.index(body) + 1}
        steps.append(step)
        bodies.append(body)
    document = {"about": about, "source": "azure-cli, as run by `make az`", "setup": []}
    shown = _shown({**document, "steps": steps}, "")
    (FOLDER / f"az_{title}.json").write_text(f"{shown}\n", "utf-8")


def _step(line: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    url = urlsplit(line["url"])
    pairs = [each.partition("=")[::2] for each in url.query.split("&") if each]
    query = dict(pairs)
    send: dict[str, Any] = {"method": line["method"], "path": url.path}
    send["apiVersion"] = query.pop("api-version", "")
    if query:
        send["query"] = query
    if line["body"]:
        is_json = line["body"].startswith("{")
        send |= {"body": json.loads(line["body"])} if is_json else {"raw": line["body"]}
    expect: dict[str, Any] = {"status": line["status"]}
    if line["answer"]:
        expect["body"] = json.loads(line["answer"], object_hook=_foreseen)
    step: dict[str, Any] = _placed({"send": send, "expect": expect}, names)
    return step


def _foreseen(members: dict[str, Any]) -> dict[str, Any]:
    return {name: _UNFORESEEN.get(name, value) for name, value in members.items()}


def _placed(value: Any, names: Mapping[str, str]) -> Any:
    """Put what stands for them in the place of *names*."""
    text = json.dumps(value)
    for found, placeholder in names.items():
        text = text.replace(found, placeholder)
    return json.loads(text)


def _shown(value: Any, margin: str) -> str:
    """Write JSON with as much on a line as fits."""
    line = json.dumps(value, ensure_ascii=False)
    if len(margin) + len(line) <= _WIDTH or not isinstance(value, dict | list):
        return line
    inner = f"{margin}  "
    if isinstance(value, list):
        parts, ends = [_shown(each, inner) for each in value], "[]"
    else:
        parts = [f"{json.dumps(name)}: {_shown(each, inner)}" for name, each in value.items()]
        ends = "{}"
    return f"{ends[0]}\n{inner}" + f",\n{inner}".join(parts) + f"\n{margin}{ends[1]}"
