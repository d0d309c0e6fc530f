"""Rows G1-G3: settings, the time limit and threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.host.app import App
from tests.host.running import Host, running
from tests.host.storage import Storage, encoded

_THREADS = 4


@pytest.fixture(scope="module")
def host(new_app: Callable[[], App], settings: dict[str, str]) -> Iterator[Host]:
    app = new_app()
    app.host_json(prefix="file")
    prefix = "AzureFunctionsJobHost__extensions__http__routePrefix"
    app.local_settings(BOTH="file", FILE="file", PYTHON_THREADPOOL_THREAD_COUNT="9")
    app.http("Web", "web")
    given = {"BOTH": "environment", "PYTHON_THREADPOOL_THREAD_COUNT": str(_THREADS)}
    with running(app, settings | given | {prefix: "given"}) as started:
        yield started


def test_g01_the_environment_wins(host):
    """
    G1: the environment over local.settings.json, and `AzureFunctionsJobHost__…` over host.json.

    Source: azure-functions-core-tools StartHostAction.cs; host HostJsonFileConfigurationSource.cs.
    """
    for name, text in (("BOTH", b"environment"), ("FILE", b"file"), ("NONE", b"")):
        answer = host.request("GET", f"/given/web?do=setting%20{name}")
        assert (answer.status, answer.body) == (200, text)
    assert host.request("GET", "/file/web").status == 404


def test_g03_as_many_calls_at_once_as_threads(host):
    """
    G3: twelve calls on four threads are four at a time.

    Source: azure-functions-python-worker dispatcher.py, PYTHON_THREADPOOL_THREAD_COUNT (2026).
    """
    gate, before = host.app.gate(), len(host.calls("Web"))
    with ThreadPoolExecutor(12) as clients:
        calls = [
            clients.submit(host.request, "GET", f"/given/web?do=wait%20{gate}") for _ in range(12)
        ]
        host.wait_calls("Web", before + _THREADS)
        gate.touch()
        assert {call.result().status for call in calls} == {200}

    assert host.most_at_once("Web") == _THREADS


def test_g02_a_function_that_takes_too_long_has_failed(
    new_app: Callable[[], App], settings: dict[str, str], storage: Storage
) -> None:
    """
    G2: after functionTimeout an HTTP call is answered 500 and a message takes the failure path.

    The real host then restarts its worker process, and the other invocations in it fail as well.
    The local host has one process, which continues: this half is not tested here.
    Source: azure-functions-host WebScriptHostExceptionHandler.cs; docs, functions-host-json (2026).
    """
    app, queue = new_app(), storage.queue("g02")
    app.host_json(maxDequeueCount=2)
    app.http("Web", "web")
    app.queue("Work", queue)
    given, gate = {"AzureFunctionsJobHost__functionTimeout": "00:00:01"}, app.gate()
    with running(app, settings | given) as host:
        answer = host.request("GET", f"/web?do=wait%20{gate}")

        assert (answer.status, answer.body) == (500, b"")
        assert host.calls("Web", "end") == []
        storage.send(queue, f"wait {gate}")
        assert storage.wait_poison(queue) == encoded(f"wait {gate}".encode())
        first, second = host.calls("Work")
        assert second["at"] - first["at"] >= 1.0
        assert host.request("GET", "/web").status == 200
