"""MemoryPort functions, settings and storage: one line each, and the other functions are served."""

from __future__ import annotations

import resource
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from devhost.azurite import KEY
from tests.host.page import same_page
from tests.host.running import PATIENCE
from tests.integration.devhost.functions import HELLO, HTTP, QUEUE, TICK, TIMER, WORK

DEMANDING = "raise ValueError('a setting is missing')\ndef main(req): ..."


def test_functions_that_cannot_be_served_are_listed(start, function, tmp_path):
    function("good", HELLO, **HTTP)
    faulty: dict[str, tuple[dict[str, Any], str]] = {
        "bounded": (
            HTTP | {"route": "a/{id:int}"},
            "ERROR  route 'a/{id:int}': segment '{id:int}' is not supported; ",
        ),
        "setting": (QUEUE | {"queueName": "%NONE%"}, "ERROR  setting NONE, named by queueName, is"),
        "nowhere": (
            QUEUE | {"queueName": "jobs", "connection": "NOT_SET"},
            "ERROR  setting NOT_SET (the storage account) is missing",
        ),
        "work": (
            QUEUE | {"queueName": "jobs"},
            "ERROR  setting AzureWebJobsStorage is not a storage",
        ),
        "clock": (TIMER, "ERROR  setting AzureWebJobsStorage is not a storage address"),
        "odd": ({"type": "cosmosDBTrigger", "name": "x"}, "ERROR  this host does not support cosm"),
        "text": (HTTP, "ERROR  function.json is not JSON: Expecting"),
    }
    for name, (trigger, _) in faulty.items():
        function(name, HELLO, **trigger)
    (tmp_path / "text" / "function.json").write_text("{")
    (tmp_path / "local.settings.json").write_text("{}")

    host = start(AzureWebJobsStorage="AccountName=a;QueueEndpoint=http://[::1/a;BlobEndpoint=b")

    assert host.get("/good") == (200, b"hello")
    for name, (_, words) in faulty.items():
        host.wait_for(f"  {name:<7}  {words}")
    host.assert_no_traceback()
    host.assert_said("local.settings.json is missing", 0)


def test_functions_that_cannot_be_imported_fail_at_each_call(start, function):
    """A fault in common has one traceback, and missing settings are pointed out."""
    function("good", HELLO, **HTTP)
    function("one", DEMANDING, **HTTP)
    function("two", DEMANDING, **HTTP)
    function("six", DEMANDING.replace("a setting", "another"), **HTTP)
    function("gone", "import asyncio\nraise asyncio.CancelledError('x')", **HTTP)

    host = start()

    assert host.get("/good") == (200, b"hello")
    assert host.get("/one") == (500, b"")
    assert host.wait_for("one   FAILED").endswith("  ValueError: a setting is missing")
    host.wait_for("gone  ERROR  CancelledError: x")
    host.assert_said("ERROR  ValueError: a setting is missing", 2)
    host.assert_said("Traceback", 3)
    host.assert_said("FAILED", 1)
    host.assert_said("local.settings.json is missing", 1)


def test_an_app_of_the_v2_model_is_named(start, function, tmp_path):
    assert function
    (tmp_path / "function_app.py").write_text("")

    host = start()

    host.wait_for("function_app.py is the v2 programming model")


HOPELESS = (
    "class Wrong(Exception):\n    ends_host = True\n"
    "raise Wrong('SIZE: 12x is no number')\ndef main(req): ..."
)


def test_an_app_can_end_the_host_at_its_start(start, function):
    function("good", HELLO, **HTTP)
    function("wrong", HOPELESS, **HTTP)

    host = start()

    assert host.end() == 1
    assert host.lines[-1] == "devhost: the app can't start: Wrong: SIZE: 12x is no number"
    host.assert_said("ready", 0)
    host.assert_no_traceback()


def test_an_idle_host_costs_next_to_nothing(start, function, azurite, queue):
    """With a queue, a timer and HTTP, five seconds cost less than a fifth of its start did."""
    function("good", HELLO, **HTTP)
    function("work", WORK, queueName=queue.queue_name, **QUEUE)
    function("clock", TICK, **(TIMER | {"schedule": "*/5 * * * * *"}))
    host = start(
        AzureWebJobsStorage=azurite.connection_string,
        AzureFunctionsJobHost__extensions__queues__maxPollingInterval="00:00:00.500",
    )
    host.wait_for("clock  ok")

    assert host.idle_cost(5) < 0.2


def test_storage_that_rejects_the_host_ends_it_with_one_line(start, function, azurite):
    """With the key of another account, for example."""
    function("clock", TICK, **TIMER)
    wrong = azurite.connection_string.replace(KEY, "d3Jvbmc=")

    host = start(AzureWebJobsStorage=wrong)

    assert host.end() == 1
    assert host.lines[-1].startswith("devhost: timer clock: storage rejects the host: ")
    assert " 403 " in f"{host.lines[-1]} "
    host.assert_no_traceback()


def test_something_else_at_the_address_of_storage(start, function):
    function("good", HELLO, **HTTP)
    function("work", WORK, queueName="jobs", **QUEUE)
    function("clock", TICK, **TIMER)

    with same_page(b"<p>hello\n") as url:
        where = f"AccountName=a;AccountKey=aaaa;QueueEndpoint={url};BlobEndpoint={url}"
        host = start(AzureWebJobsStorage=where)

        failing = "storage is failing, retrying: the response is not a"
        host.wait_for(f"queue jobs: {failing} queue service's")
        host.wait_for("timer clock: storage is failing, retrying: ")
        assert host.get("/good") == (200, b"hello")
        assert host.stop() == 0
    host.assert_no_traceback()
    host.assert_said("retrying", 2)


def test_more_connections_than_descriptors_are_no_flood_of_lines(start, function):
    """A laptop allows 256: asyncio would print a traceback for each turn of its loop."""
    function("good", HELLO, **HTTP)
    host = start()
    address = ("127.0.0.1", urlsplit(host.url).port)
    said = len(host.lines)
    limits = resource.prlimit(host.process.pid, resource.RLIMIT_NOFILE)
    in_use = len(list(Path(f"/proc/{host.process.pid}/fd").iterdir()))
    resource.prlimit(host.process.pid, resource.RLIMIT_NOFILE, (in_use + 4, limits[1]))
    with ExitStack() as clients:
        for _ in range(40):
            clients.enter_context(socket.create_connection(address, PATIENCE))
        assert host.idle_cost(1.0) < 1
    resource.prlimit(host.process.pid, resource.RLIMIT_NOFILE, limits)

    assert host.get("/good") == (200, b"hello")
    assert len(host.lines) <= said + 1  # that of the request
