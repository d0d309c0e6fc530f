"""
The worker's own library, driven without a host: runs in the virtual environment `.venv-worker`.

It needs no channel: its functions take and return the messages of the protocol, whose classes the
package brings along in its `tests.protos`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import importlib
import io
import logging
import types
from pathlib import Path
from typing import Any

wire: Any = importlib.import_module("wire")  # it stands beside this file
_worker: Any = importlib.import_module("azure_functions_runtime_v1")
_context: Any = importlib.import_module("azure_functions_runtime_v1.bindings.context")
_protos: Any = importlib.import_module("tests.protos")
_DIRECTIONS = {"in": 0, "out": 1, "inout": 2}
_DATA_TYPES = {"string": 1, "binary": 2, "stream": 3}


def _ask(kind: str, message: Any) -> Any:
    request = types.SimpleNamespace(
        request=types.SimpleNamespace(**{kind: message}),
        properties={"host": "127.0.0.1", "protos": _protos},
    )
    return _loop.run_until_complete(getattr(_worker, kind)(request))


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Load the function of *case*, call it if there is an input, and say what came of it."""
    wire.make_recorder_importable(case["root"])
    folder = Path(case["root"], case["name"])
    bindings = {
        each["name"]: _protos.BindingInfo(
            type=each["type"],
            direction=_DIRECTIONS[each.get("direction", "in")],
            data_type=_DATA_TYPES.get(each.get("dataType", ""), 0),
        )
        for each in case["document"]["bindings"]
    }
    loaded = _ask(
        "function_load_request",
        _protos.FunctionLoadRequest(
            function_id=case["name"],
            metadata=_protos.RpcFunctionMetadata(
                name=case["name"],
                directory=str(folder),
                script_file=str(folder / case["document"].get("scriptFile", "__init__.py")),
                entry_point=case["document"].get("entryPoint", ""),
                bindings=bindings,
            ),
        ),
    )
    if loaded.result.status != _protos.StatusResult.Success:
        return {"load": loaded.result.exception.message, "recorded": wire.take_recorded()}
    if case.get("data") is None:
        return {"load": None, "recorded": wire.take_recorded()}
    return {"load": None} | _invoke(case)


class AsyncLoggingHandler(logging.Handler):
    """Keeps lines with the invocation that the worker would send; the host drops ended ones."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[tuple[str | None, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "pushgrid":
            self.sent.append((get_current_invocation_id(), record.getMessage()))


def get_current_invocation_id() -> str | None:
    """Return what the library has left for it, on this thread."""
    return getattr(_context._invocation_id_local, "invocation_id", None)


def _invoke(case: dict[str, Any]) -> dict[str, Any]:
    if not case.get("lines"):
        return _answer(case)
    handler = AsyncLoggingHandler()
    logging.getLogger().addHandler(handler)
    logging.getLogger().setLevel(logging.INFO)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        answer = _answer(case)
        if left := asyncio.all_tasks(_loop):
            _loop.run_until_complete(asyncio.wait(left))
    logging.getLogger().removeHandler(handler)
    return answer | {"sent": handler.sent, "printed": printed.getvalue()}


def _answer(case: dict[str, Any]) -> dict[str, Any]:
    trigger = case["document"]["bindings"][0]
    answer = _ask(
        "invocation_request",
        _protos.InvocationRequest(
            invocation_id="one",
            function_id=case["name"],
            input_data=[_protos.ParameterBinding(name=trigger["name"], data=_typed(case["data"]))],
            trigger_metadata={
                name: _typed(each) for name, each in (case.get("metadata") or {}).items()
            },
        ),
    )
    failed = answer.result.status != _protos.StatusResult.Success
    returned = answer.return_value
    return {
        "recorded": wire.take_recorded(),
        "fault": answer.result.exception.message if failed else None,
        "returned": None if failed else _returned(returned),
    }


def _typed(datum: dict[str, Any]) -> Any:
    kind, value = datum["type"], datum["value"]
    if kind == "http":
        body = _protos.TypedData(bytes=base64.b64decode(value["body"]))
        return _protos.TypedData(http=_protos.RpcHttp(**(value | {"body": body})))
    if kind == "bytes":
        value = base64.b64decode(value)
    return _protos.TypedData(**{kind: value})


def _returned(value: Any) -> dict[str, Any] | None:
    kind = value.WhichOneof("data")
    if kind is None:
        return None
    if kind == "string":
        return {"text": value.string}
    http = value.http
    return {
        "status": int(http.status_code),
        "headers": dict(http.headers),
        "cookies": [_cookie(each) for each in http.cookies],
        "body": wire.b64(http.body.bytes),
    }


def _cookie(each: Any) -> dict[str, Any]:
    cookie: dict[str, Any] = wire.cookie(
        each.name,
        each.value,
        domain=each.domain.value,
        path=each.path.value,
        expires=each.expires.value.seconds,
        secure=each.secure.value,
        http_only=each.http_only.value,
        same_site={0: "", 1: "lax", 2: "strict", 3: "none"}[each.same_site],
        max_age=each.max_age.value,
    )
    return cookie


_loop = asyncio.new_event_loop()
asyncio.set_event_loop(_loop)
_worker.start_threadpool_executor()
_ask("worker_init_request", _protos.WorkerInitRequest(capabilities={}))
wire.serve(run)
