"""Runs a case with the local host's loader and invoker, without the host."""

from __future__ import annotations

import asyncio
import base64
import importlib
import os
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

from azure.functions.meta import Datum

from devhost.errors import BadFunctionError, InvocationError, class_and_message
from devhost.functions import loader, metadata
from devhost.functions.invoke import Invoker, Report
from devhost.http import response as http_response

wire: Any = importlib.import_module("wire")  # it stands beside this file
_threads = ThreadPoolExecutor(4)
_prepared: list[Path] = []


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Load the function of *case*, call it if there is an input, and say what came of it."""
    return asyncio.run(_run(case))


async def _run(case: dict[str, Any]) -> dict[str, Any]:
    root = Path(case["root"])
    if _prepared != [root]:
        loader.prepare(root)
        _prepared[:] = [root]
    try:
        function = loader.load(metadata.read(root / case["name"], os.environ))
    except BadFunctionError as fault:
        return {"load": str(fault), "recorded": wire.take_recorded()}
    if function.fault is not None or case.get("data") is None:
        return {"load": function.fault, "recorded": wire.take_recorded()}
    return {"load": None} | await _invoke(function, case)


async def _invoke(function: loader.Function, case: dict[str, Any]) -> dict[str, Any]:
    reports: list[Report] = []
    invoker = Invoker(threads=_threads, timeout=None, report=reports.append)
    given = {name: _datum(each) for name, each in (case.get("metadata") or {}).items()}
    try:
        returned = _returned(await invoker.invoke(function, _datum(case["data"]), given))
    except InvocationError:
        returned = None
    except ValueError as refused:
        return {
            "recorded": wire.take_recorded(),
            "fault": class_and_message(refused),
            "returned": None,
        }
    return {
        "recorded": wire.take_recorded(),
        "fault": None if reports[0].fault is None else class_and_message(reports[0].fault),
        "returned": returned,
    }


def _datum(datum: dict[str, Any]) -> Datum:
    kind, value = datum["type"], datum["value"]
    if kind == "bytes":
        return Datum(base64.b64decode(value), kind)
    if kind != "http":
        return Datum(value, kind)
    texts = {name: Datum(value[name], "string") for name in ("method", "url")}
    maps = {
        name: {key: Datum(text, "string") for key, text in value[name].items()}
        for name in ("headers", "query", "params")
    }
    return Datum(texts | maps | {"body": Datum(base64.b64decode(value["body"]), "bytes")}, kind)


def _returned(datum: Datum | None) -> dict[str, Any] | None:
    if datum is None:
        return None
    answer = http_response.from_datum(datum)
    if datum.type == "string":
        return {"text": datum.value}
    headers = [(name.decode(), value.decode()) for name, value in answer.headers]
    return {
        "status": answer.status,
        "headers": {name: value for name, value in headers if name != "Set-Cookie"},
        "cookies": [_cookie(value) for name, value in headers if name == "Set-Cookie"],
        "body": wire.b64(answer.body),
    }


def _cookie(text: str) -> dict[str, Any]:
    ((name, morsel),) = SimpleCookie(text).items()
    expires = morsel["expires"]
    cookie: dict[str, Any] = wire.cookie(
        name,
        morsel.value,
        domain=morsel["domain"],
        path=morsel["path"],
        expires=int(parsedate_to_datetime(expires).timestamp()) if expires else 0,
        secure=bool(morsel["secure"]),
        http_only=bool(morsel["httponly"]),
        same_site=morsel["samesite"].lower(),
        max_age=float(morsel["max-age"]) if morsel["max-age"].isdecimal() else 0,
    )
    return cookie


wire.serve(run)
