"""
Functions that do what their message, request or setting says and record each call.

The file is copied into the app's function folders and runs on any Azure Functions host, so it uses
only the standard library and azure.functions. The setting PROBE_RECORDS names the file of JSON
lines to which calls are appended.
"""

from __future__ import annotations

import base64
import json
import os
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import azure.functions as func


def queue(message: func.QueueMessage, context: func.Context) -> None:
    """Obey the message: `wait <file>`, `raise`, `delete <url>`, `hide 1 <url>` (the first time)."""
    body = message.get_body()
    call = {
        "body": base64.b64encode(body).decode(),
        "id": message.id,
        "dequeue_count": message.dequeue_count,
        "pop_receipt": message.pop_receipt,
        "time_next_visible": _iso(message.time_next_visible),
        "insertion_time": _iso(message.insertion_time),
    }
    with _Recorded(context, **call):
        verb, _, rest = body[:2048].decode(errors="replace").partition(" ")
        if verb == "wait":
            _wait_for(rest)
        elif verb == "raise":
            raise RuntimeError("as requested")
        elif verb == "delete":
            _storage("DELETE", rest, message)
        elif verb == "hide" and message.dequeue_count == 1:
            seconds, _, url = rest.partition(" ")
            _storage("PUT", url, message, visibilitytimeout=seconds)


def http(req: func.HttpRequest, context: func.Context):
    """Answer with the request as seen, or do what the parameter `do` says."""
    do, _, rest = req.params.get("do", "").partition(" ")
    body = req.get_body()
    seen = {
        "function": context.function_name,
        "method": req.method,
        "url": req.url,
        "params": dict(req.params),
        "route_params": dict(req.route_params),
        "headers": dict(req.headers),
        "length": len(body),
        "body": base64.b64encode(body[:2048]).decode(),
    }
    with _Recorded(context):
        if do == "wait":
            _wait_for(rest)
        if do == "raise":
            raise RuntimeError("as requested")
        if do == "setting":
            return os.environ.get(rest, "")
        if do in _ANSWERS:
            return _ANSWERS[do]
    return func.HttpResponse(json.dumps(seen), mimetype="application/json")


def timer(tick: func.TimerRequest, context: func.Context) -> None:
    """Record the tick and take as many seconds as the setting PROBE_SLEEP_<function> says."""
    with _Recorded(context, past_due=tick.past_due, schedule_status=_status(tick)):
        time.sleep(float(os.environ.get(f"PROBE_SLEEP_{context.function_name}", "0")))


class _Recorded:
    def __init__(self, context: func.Context, **call: object) -> None:
        self._call = {"function": context.function_name, "run": context.invocation_id, **call}

    def __enter__(self) -> None:
        self._write("start")

    def __exit__(self, *_: object) -> None:
        self._write("end")

    def _write(self, moment: str) -> None:
        line = {
            "moment": moment,
            "at": time.time(),
            "host": os.environ.get("PROBE_HOST"),
            **self._call,
        }
        # One write appends the whole line: lines of two processes do not mix.
        with Path(os.environ["PROBE_RECORDS"]).open("ab", buffering=0) as records:
            records.write(json.dumps(line).encode() + b"\n")


def _wait_for(file: str) -> None:
    """Wait until the test makes *file*: it decides how long an invocation takes."""
    while not Path(file).exists():
        time.sleep(0.02)


def _storage(method: str, url: str, message: func.QueueMessage, **query: str) -> None:
    # The test's url has the signature; the receipt is known only here.
    address, _, signature = url.partition("?")
    query["popreceipt"] = message.pop_receipt or ""
    target = f"{address}/messages/{message.id}?{urllib.parse.urlencode(query)}&{signature}"
    request = urllib.request.Request(target, method=method)
    with urllib.request.urlopen(request, timeout=20):
        pass


def _status(tick: Any) -> Any:
    return tick.schedule_status


def _iso(moment: Any) -> str | None:
    return moment.isoformat() if moment else None


def _cookies() -> func.HttpResponse:
    answer = func.HttpResponse("crumbs", status_code=201)
    for text in ("a=1; Path=/; HttpOnly", "b=2; Secure"):
        answer.headers.add("Set-Cookie", text)
    return answer


_ANSWERS: dict[str, Any] = {
    "none": None,
    "str": "grüße",
    "bytes": func.HttpResponse(b"\x00\xff", mimetype="application/octet-stream"),
    "empty": func.HttpResponse(status_code=204),
    "reset": func.HttpResponse("x", status_code=205),
    "cookies": _cookies(),
    "unicode": func.HttpResponse("x", headers={"X-Odd": "grüße"}),
    "header": func.HttpResponse("x", status_code=418, headers={"X-Plain": "a b"}),
}
