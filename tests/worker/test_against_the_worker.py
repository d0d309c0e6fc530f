"""
The half of the host that the Python worker does, compared with Microsoft's own code.

Both sides load the same folders and get the same inputs; what each function saw, what came back
and the error text are compared. Differences on purpose are pinned in `DIFFERENCES`.

Source: PyPI azure-functions-runtime-v1 1.2.0, the worker's library for the v1 model.
"""

from __future__ import annotations

import base64
import json
import re
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.worker.cases import CALLS, QUEUE, RECORDER, Case, message, request, text, tick
from tests.worker.loading import ENDS, LOADING

_HERE = Path(__file__).parent
#: Seconds for one question.
_PATIENCE = 50
_CHECKOUT = _HERE.parents[1]
# An address, an id, a time of day.
_BY_CHANCE = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8}-[0-9a-f-]{27}|\d+:\d\d:\d\d [AP]M")
_NO_RETURN = "RuntimeError: ('function %s without a $return bindingreturned a non-None value'"
_NO_OUTPUT = "TypeError: unable to encode outgoing TypedData: unsupported type"
_ONLY = "it can be azure.functions.HttpResponse or str"

#: How the texts begin there, and here, where ours differ on purpose: theirs are formats that were
#: not filled in, talk of the protocol's classes, or list the paths of one machine.
DIFFERENCES = {
    "queue_returns": (
        _NO_RETURN,
        "RuntimeError: function 'queue_returns' without a $return binding returned a non-None",
    ),
    "no_return_binding": (
        _NO_RETURN,
        "RuntimeError: function 'no_return_binding' without a $return binding returned a non-None",
    ),
    "http_as_str": (
        "ValueError: ('unexpected type of data received for the \"generic\" binding '",
        "ValueError: a request cannot be passed as str or bytes",
    ),
    "returns_none": (_NO_OUTPUT, f"TypeError: an http output cannot be a NoneType; {_ONLY}"),
    "returns_bytes": (_NO_OUTPUT, f"TypeError: an http output cannot be a bytes; {_ONLY}"),
    "generator": (_NO_OUTPUT, f"TypeError: an http output cannot be a generator; {_ONLY}"),
    "cookie_max_age": (
        "TypeError: Cannot parse value abc of 'cookie.maxAge' to float.",
        "ValueError: could not convert string to float: 'abc'",
    ),
    "fails_without_text": (
        "Unhandled exception in function. Could not serialize original exception message.",
        "MuteError: no message, its __str__ failed",
    ),
    "script_not_python": (
        "RuntimeError: ('cannot load function %s: invalid Python filename %s'",
        "FunctionLoadError: cannot load the script_not_python function: scriptFile other.txt is",
    ),
    "entry_point_missing": (
        "RuntimeError: ('cannot load function %s: function %s() is not present in %s'",
        "FunctionLoadError: cannot load the entry_point_missing function: __init__.py has no",
    ),
    "entry_point_no_function": (
        "RuntimeError: ('cannot load function %s: function %s() is not present in %s'",
        "FunctionLoadError: cannot load the entry_point_no_function function: __init__.py has no",
    ),
    "import_missing": (
        "ModuleNotFoundError: No module named 'nothing_here'. Cannot find module. Please check",
        "ModuleNotFoundError: No module named 'nothing_here'",
    ),
    "inout": (
        'FunctionLoadError: cannot load the inout function: "inout" bindings are not supported',
        "the trigger's direction must be in",
    ),
    "return_in": (
        'FunctionLoadError: cannot load the return_in function: "$return" binding must have',
        "binding '$return': http (in) is not supported",
    ),
}
_WORKERS_PYTHON = _CHECKOUT / ".venv-worker/bin/python"

OURS = sorted(path.parent for path in _CHECKOUT.glob("*_function/function.json"))


class Side:
    """One side of the comparison, in a process."""

    def __init__(self, python: Path | str, script: str, environ: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [str(python), str(_HERE / script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environ,
            text=True,
        )

    def run(self, case: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(case) + "\n")
        self._process.stdin.flush()
        # One line for each question: nothing is left in the pipe's buffer.
        if not select.select([self._process.stdout], [], [], _PATIENCE)[0]:
            self._process.kill()
        line = self._process.stdout.readline()
        assert line, f"no answer about {case['name']} within {_PATIENCE} s"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()
        self._process.wait(_PATIENCE)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An app with the function of every case."""
    root = tmp_path_factory.mktemp("awkward")
    (root / "recorder.py").write_text(RECORDER)
    for name, case in (CALLS | LOADING | ENDS).items():
        (root / name).mkdir()
        document = json.dumps(_document(case))
        sources = {"__init__.py": case.source, "function.json": document}
        for file, source in (sources | case.files).items():
            (root / name / file).write_text(source)
    return root


@pytest.fixture(scope="module")
def sides(azurite) -> Iterator[tuple[Side, Side]]:
    """The worker's library and this host's loader and invoker."""
    assert _WORKERS_PYTHON.exists(), "the worker's library is missing: run `make worker`"
    example = json.loads((_CHECKOUT / "local.settings.example.json").read_text())["Values"]
    environ = example | {
        "AzureWebJobsStorage": azurite.connection_string,
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    theirs = Side(_WORKERS_PYTHON, "theirs.py", environ)
    ours = Side(sys.executable, "ours.py", environ | {"PYTHONPATH": str(_CHECKOUT)})
    yield theirs, ours
    theirs.close()
    ours.close()


def _question(root: Path, name: str, case: Case) -> dict[str, Any]:
    return {
        "root": str(root),
        "name": name,
        "document": _document(case),
        "data": case.data,
        "metadata": case.metadata,
    }


def _document(case: Case) -> dict[str, Any]:
    return case.document | {"bindings": list(case.bindings)}


@pytest.mark.parametrize("name", ENDS)
def test_what_ends_the_worker_is_one_failure_here(sides, root, name):
    """There the worker is restarted; here the text is the same and nothing ends."""
    theirs, ours = (side.run(_question(root, name, ENDS[name])) for side in sides)

    assert theirs["ends"] == (ours["load"] or ours["fault"])
    assert "ends" not in ours


@pytest.mark.parametrize("name", CALLS | LOADING)
def test_an_awkward_function(sides, root, name):
    question = _question(root, name, (CALLS | LOADING)[name])

    theirs, ours = (side.run(question) for side in sides)

    if name in DIFFERENCES:
        for side, start in zip((theirs, ours), DIFFERENCES[name], strict=True):
            member = "load" if side["load"] else "fault"
            assert side[member].startswith(start)
            side[member] = "differs"
    assert _plain(ours) == _plain(theirs)


def _plain(side: dict[str, Any]) -> dict[str, Any]:
    """Return *side* without ids, addresses and times of day."""
    returned = side.get("returned") or {}
    if "body" in returned:
        returned["body"] = base64.b64decode(returned["body"]).decode("latin-1")
    plain: dict[str, Any] = json.loads(_BY_CHANCE.sub("...", json.dumps(side)))
    return plain


def _calls_of_ours() -> dict[str, list[tuple[dict[str, Any], dict[str, Any] | None]]]:
    def plain(method: str, where: str, **params: str) -> tuple[dict[str, Any], None]:
        url = f"http://127.0.0.1:7071/{where}"
        return request(b"[]", method=method, url=url, headers={}, query={}, params=params), None

    topics = {
        method: plain(method, "topics/t/api/events", topic="t")
        for method in ("GET", "POST", "OPTIONS", "DELETE")
    }
    return {
        "publish_function": list(topics.values()),
        "manage_function": [
            plain(method, "subscriptions/none", path="none") for method in ("GET", "PUT", "DELETE")
        ],
        "deliver_function": [(text(body), message()) for body in ("", "{}", "nonsense")],
        "retry_function": [(text(body), message()) for body in ("", "{}", "nonsense")],
        "wake_function": [(tick(past_due=late), None) for late in (False, True)],
        "deadletter_function": [(tick(past_due=late), None) for late in (False, True)],
    }


@pytest.mark.parametrize("folder", OURS, ids=lambda folder: folder.name)
def test_a_function_of_ours(sides, folder):
    """Both load every function folder of this project; those with examples are called as well."""
    document = json.loads((folder / "function.json").read_text())
    question = {"root": str(_CHECKOUT), "name": folder.name, "document": document}
    for data, given in _calls_of_ours().get(folder.name, [(None, None)]):
        theirs, ours = (side.run(question | {"data": data, "metadata": given}) for side in sides)

        if theirs.get("returned"):  # This host writes it itself, in every answer.
            assert theirs["returned"]["headers"].pop("X-Content-Type-Options") == "nosniff"
        assert _plain(ours) == _plain(theirs)
        assert ours["load"] is None


OUTLIVES = """
import asyncio
from contextvars import Context
from shared import telemetry
from shared.wiring import worker_log
from shared.wiring.function_app import APP

class Work:
    async def run(self, body, queue):
        telemetry.info("of the invocation")
        asyncio.get_running_loop().create_task(later(), context=Context())

async def later():
    await asyncio.sleep(0)
    telemetry.info("later")

async def main(message):
    worker_log.print_what_the_host_drops()
    APP.delivering = Work()
    await APP.deliver(message.get_body(), "deliveries")
"""


def test_lines_of_a_task_that_outlives_its_invocation_arrive(tmp_path, azurite):
    """
    The library leaves the last invocation's id on its loop's thread, where the worker finds it.

    `test_worker_log` imitates the tasks of the workers before Python 3.13, which it has not.
    """
    (tmp_path / "outlives").mkdir()
    (tmp_path / "outlives" / "__init__.py").write_text(OUTLIVES)
    environ = {"PYTHONPATH": str(_CHECKOUT), "AzureWebJobsStorage": azurite.connection_string}
    worker = Side(_WORKERS_PYTHON, "theirs.py", environ | {"PYTHONDONTWRITEBYTECODE": "1"})
    try:
        case = Case(source="", bindings=(QUEUE,), data=text("x"), metadata=message())
        answer = worker.run(_question(tmp_path, "outlives", case) | {"lines": True})
    finally:
        worker.close()

    assert answer["fault"] is None
    assert answer["sent"] == [["one", '{"event":"of the invocation"}']]
    assert answer["printed"] == '{"event":"later"}\n'
