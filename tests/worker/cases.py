"""Cases of calls: the source of a function, its bindings and an input."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import Any

QUEUE = {"type": "queueTrigger", "direction": "in", "name": "message", "queueName": "jobs"}
BINARY = QUEUE | {"dataType": "binary"}
TIMER = {"type": "timerTrigger", "direction": "in", "name": "tick", "schedule": "0 * * * * *"}
HTTP = {"type": "httpTrigger", "direction": "in", "name": "req", "authLevel": "anonymous"}
RETURN = {"type": "http", "direction": "out", "name": "$return"}

#: A module in the app's root, with which functions record what they see.
RECORDER = """
RECORDED = []

def record(*what):
    RECORDED.append([plain(each) for each in what])

def plain(each):
    if isinstance(each, (bytes, bytearray)):
        return [type(each).__name__, bytes(each).hex()]
    if each is None or isinstance(each, (bool, int, float, str)):
        return each
    if isinstance(each, dict):
        return {str(key): plain(value) for key, value in each.items()}
    if isinstance(each, (list, tuple)):
        return [plain(value) for value in each]
    return [type(each).__name__, str(each)]
"""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One function and at most one input."""

    source: str
    bindings: tuple[dict[str, Any], ...]
    data: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    document: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


def text(value: str) -> dict[str, Any]:
    return {"type": "string", "value": value}


def binary(value: bytes) -> dict[str, Any]:
    return {"type": "bytes", "value": base64.b64encode(value).decode()}


def parsed(value: Any) -> dict[str, Any]:
    return {"type": "json", "value": json.dumps(value)}


def request(body: bytes = b"", **changes: Any) -> dict[str, Any]:
    value = {
        "method": "POST",
        "url": "http://127.0.0.1/things/1?a=b",
        "headers": {"content-type": "application/json", "x-many": "1,2"},
        "query": {"a": "b"},
        "params": {"id": "1"},
        "body": base64.b64encode(body).decode(),
    }
    return {"type": "http", "value": value | changes}


def message(**changes: Any) -> dict[str, Any]:
    """Return the metadata of a queue message, as the real host sends it."""
    return {
        "Id": text("5f2c"),
        "PopReceipt": text("AgAAAA"),
        "DequeueCount": parsed(3),
        "InsertionTime": parsed("2026-11-21T12:00:00+00:00"),
        "ExpirationTime": parsed("2026-11-28T12:00:00+00:00"),
        "NextVisibleTime": parsed("2026-11-21T12:10:00+00:00"),
        "QueueTrigger": text("x"),
    } | changes


def tick(*, past_due: bool, status: Any = None) -> dict[str, Any]:
    return parsed(
        {"Schedule": {"AdjustForDST": True}, "ScheduleStatus": status, "IsPastDue": past_due}
    )


IMPORTS = "import azure.functions as func\nfrom recorder import record\n"
_MESSAGE = """
    record(type(message).__name__, message.get_body(), message.id, message.dequeue_count,
        message.pop_receipt, message.insertion_time, message.expiration_time,
        message.time_next_visible)
"""
_RECORD_MESSAGE = "def main(message: func.QueueMessage) -> None:" + _MESSAGE
_STATUS = {
    "Last": "2026-11-21T12:00:00+00:00",
    "Next": "2026-11-21T12:01:00+00:00",
    "LastUpdated": "2026-11-21T12:00:00+00:00",
}


def http(source: str, **changes: Any) -> Case:
    """Return an HTTP function, with a request."""
    given: dict[str, Any] = {"data": request(b"{}"), "bindings": (HTTP, RETURN)}
    return Case(source=IMPORTS + source, **(given | changes))


def queue(source: str, **changes: Any) -> Case:
    """Return a queue function, with a message."""
    given: dict[str, Any] = {"data": text("x"), "metadata": message(), "bindings": (QUEUE,)}
    return Case(source=IMPORTS + source, **(given | changes))


def _look(**changes: Any) -> Case:
    return queue(_RECORD_MESSAGE, **changes)


def _returns(expression: str) -> Case:
    return http(f"def main(req): return {expression}")


CALLS: dict[str, Case] = {
    "queue_text": _look(),
    "queue_binary": _look(data=binary(b"\x00\xff"), bindings=(BINARY,)),
    "queue_overwritten": _look(
        metadata=message(Id=text("mine"), DequeueCount=text("7"), PopReceipt=text("slip"))
    ),
    "queue_bad_count": _look(metadata=message(DequeueCount=text("abc"))),
    "queue_bad_time": _look(metadata=message(InsertionTime=text("yesterday"))),
    "queue_as_str": queue("def main(message: str): record(type(message).__name__, message)"),
    "queue_as_bytes": queue("def main(message: bytes): record(type(message).__name__, message)"),
    "queue_binary_as_bytes": queue(
        "def main(message: bytes): record(type(message).__name__, message)",
        data=binary(b"\x00\xff"),
        bindings=(BINARY,),
    ),
    "queue_returns": queue("def main(message): return 'x'"),
    "queue_async": queue(
        "import asyncio\nasync def main(message):\n"
        "    await asyncio.sleep(0)\n    record(message.id)"
    ),
    "queue_async_loop": queue(
        "import asyncio\nLOOP = asyncio.get_running_loop()\n"
        "async def main(message): record(asyncio.get_running_loop() is LOOP)"
    ),
    "queue_async_fails": queue("async def main(message): raise KeyError('gone')"),
    "timer_on_time": queue(
        "def main(tick: func.TimerRequest):\n"
        "    record(tick.past_due, tick.schedule, tick.schedule_status)",
        bindings=(TIMER,),
        data=tick(past_due=False),
        metadata=None,
    ),
    "timer_past_due": queue(
        "def main(tick: func.TimerRequest):\n"
        "    record(tick.past_due, tick.schedule, tick.schedule_status)",
        bindings=(TIMER,),
        data=tick(past_due=True, status=_STATUS),
        metadata=None,
    ),
    "timer_as_str": queue(
        "def main(tick: str): record(type(tick).__name__, tick)",
        bindings=(TIMER,),
        data=tick(past_due=True),
        metadata=None,
    ),
    "http_request": http(
        "def main(req):\n"
        "    record(req.method, req.url, dict(req.headers), dict(req.params),\n"
        "        dict(req.route_params), req.get_body(), req.headers.get('X-MANY'),\n"
        "        req.get_json())\n"
        "    return func.HttpResponse()",
        data=request(b'{"a": 1}'),
    ),
    "http_as_str": http("def main(req: str): return req"),
    "http_async": http("async def main(req): return 'async'"),
    "returns_none": _returns("None"),
    "returns_str": _returns("'grüße'"),
    "returns_bytes": _returns("b'x'"),
    "returns_response": _returns("func.HttpResponse('grüße', status_code=202)"),
    "returns_binary": _returns("func.HttpResponse(b'\\x00', mimetype='application/x-odd')"),
    "returns_odd_headers": _returns(
        "func.HttpResponse('x', headers={'X-Odd': 'a  b;c=\"d\"', 'x-empty': '',"
        " 'Content-Type': 'text/x-own', 'ETag': 'W/\"1\"'})"
    ),
    "returns_number_header": _returns("func.HttpResponse('x', headers={'X-Number': 7})"),
    "returns_cookies": http(
        "def main(req):\n"
        "    answer = func.HttpResponse('x')\n"
        "    answer.headers.add('Set-Cookie', 'a=1; Path=/p; HttpOnly; SameSite=Lax')\n"
        "    answer.headers.add('Set-Cookie', 'b=2; Domain=example.com; Max-Age=60; Secure')\n"
        "    answer.headers.add('Set-Cookie',\n"
        "        'c=3; Expires=Thu, 12 Jan 2017 13:55:08 GMT; SameSite=None')\n"
        "    answer.headers.add('Set-Cookie', 'd=4; Comment=lost; Version=1')\n"
        "    return answer"
    ),
    "returns_bad_cookie": http(
        "def main(req):\n"
        "    answer = func.HttpResponse('x')\n"
        "    answer.headers.add('Set-Cookie', 'a=1; Expires=tomorrow')\n"
        "    return answer"
    ),
    "no_return_binding": http("def main(req): return 'x'", bindings=(HTTP,)),
    "no_return_binding_none": http("def main(req): record('called')", bindings=(HTTP,)),
    "fails": http("def main(req): raise ValueError('boom')"),
    "fails_without_words": http("def main(req): raise ValueError"),
    "fails_with_notes": http(
        "def main(req):\n    fault = ValueError('boom')\n    fault.add_note('more')\n"
        "    raise fault"
    ),
    "fails_in_a_chain": http(
        "def main(req):\n    try: 1 / 0\n    except ZeroDivisionError as e:\n"
        "        raise KeyError('k') from e"
    ),
    "fails_in_a_group": http("def main(req): raise ExceptionGroup('many', [ValueError('a')])"),
    "fails_with_own_class": http(
        "class OddError(Exception):\n    def __str__(self): return 'odd'\n"
        "def main(req): raise OddError(1, 2)"
    ),
    "generator": http("def main(req):\n    yield 'x'"),
    "returns_surrogate": http("def main(req): return chr(0xd800)"),
    "cookie_max_age": http(
        "def main(req): return func.HttpResponse('', headers={'Set-Cookie': 'a=1; Max-Age=abc'})"
    ),
    "fails_without_text": http(
        "class MuteError(Exception):\n    def __str__(self): raise RuntimeError\n"
        "def main(req): raise MuteError"
    ),
    "context": http(
        "def main(req, context: func.Context):\n"
        "    record(context.function_name, context.function_directory.rsplit('/', 1)[1],\n"
        "        bool(context.invocation_id),\n"
        "        context.thread_local_storage.invocation_id == context.invocation_id,\n"
        "        context.trace_context.trace_parent, context.trace_context.trace_state,\n"
        "        dict(context.trace_context.attributes), context.retry_context.retry_count,\n"
        "        context.retry_context.max_retry_count)\n"
        "    return 'x'"
    ),
    "context_untyped": http(
        "def main(req, context):\n    record(context.function_name)\n    return ''"
    ),
    "context_wrong": http("def main(req, context: int): return ''"),
}
