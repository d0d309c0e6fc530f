"""What a person reads at the start, where something is not as it should be."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

import pytest

from tests.integration.devhost.conftest import CHECKOUT
from tests.integration.devhost.functions import HELLO, HTTP, QUEUE, WORK

DEMANDING = "raise ValueError('a setting is missing')\ndef main(req): ..."


def test_a_fault_in_common_is_one_traceback(start, function):
    function("one", DEMANDING, **HTTP)
    function("two", DEMANDING, **HTTP)
    function("six", DEMANDING.replace("a setting", "another"), **HTTP)

    host = start()

    assert host.get("/one") == (500, b"")
    host.assert_said("ERROR  ValueError: a setting is missing", 2)
    host.assert_said("Traceback", 2)
    host.assert_said("FAILED", 1)
    assert host.wait_for("one  FAILED").endswith("  ValueError: a setting is missing")


@pytest.mark.parametrize("is_there", [False, True])
def test_missing_settings_are_named_where_something_is_wrong(start, function, tmp_path, is_there):
    function("one", DEMANDING, **HTTP)
    if is_there:
        (tmp_path / "local.settings.json").write_text("{}")

    host = start()

    host.wait_for("ready ")
    host.assert_said("there is no local.settings.json here", not is_there)


def test_nothing_is_said_of_settings_that_nobody_misses(start, function):
    function("good", HELLO, **HTTP)

    host = start()

    host.wait_for("ready ")
    host.assert_said("local.settings.json", 0)


def test_an_app_of_the_v2_model_is_named(start, function, tmp_path):
    assert function
    (tmp_path / "function_app.py").write_text("")

    host = start()

    host.wait_for("function_app.py is the v2 programming model")


def test_two_storages_are_one_too_many(start, function):
    function("good", HELLO, **HTTP)

    host = start("--azurite", "--env", "AzureWebJobsStorage=UseDevelopmentStorage=true")

    assert host.end() == 1
    assert len(host.lines) == 1


HOPELESS = (
    "class Wrong(Exception):\n    ends_host = True\n"
    "raise Wrong('SIZE: 12x is no number')\ndef main(req): ..."
)


def test_an_app_can_say_that_nothing_of_it_can_work(start, function):
    function("good", HELLO, **HTTP)
    function("wrong", HOPELESS, **HTTP)

    host = start()

    assert host.end() == 1
    assert host.lines[-1] == "devhost: the app can't start: Wrong: SIZE: 12x is no number"
    host.assert_said("ready", 0)
    host.assert_no_traceback()


def test_a_port_in_use_starts_no_azurite(start, function):
    function("good", HELLO, **HTTP)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        host = start("--azurite", "--port", str(port))

        assert host.end() == 1
    assert host.lines == [f"devhost: port {port} is in use: choose another with --port"]


def test_a_queue_that_was_never_there_is_no_news(start, function):
    """Its function is listed with it, and the app makes it when it needs it."""
    function("work", WORK, queueName="jobs", **QUEUE)

    host = start("--azurite")

    host.wait_for("ready ")
    time.sleep(1)  # five looks
    assert host.stop() == 0
    host.assert_said("WARNING", 0)
    host.assert_said("is not there", 0)


def test_a_missing_queue_is_named_to_who_wants_to_know(start, function):
    function("work", WORK, queueName="jobs", **QUEUE)

    host = start("--azurite", "--env", "AzureFunctionsJobHost__logging__logLevel__devhost=Debug")

    host.wait_for("queue jobs is not there, waiting for it")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("func {rot} {port}", "cannot be read: KeyError: 'rot'"),
        ("no-such-host {root} {port}", "there is no such command"),
        (f"{sys.executable} {{root}}", "has no {port}"),
        (f"{sys.executable} '", "cannot be read: ValueError"),
    ],
    ids=["name", "command", "port", "quote"],
)
def test_a_host_cmd_that_cannot_be_is_told_at_once(command, words):
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tests/host"],
        cwd=CHECKOUT,
        env=os.environ | {"HOST_CMD": command},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert words in run.stdout + run.stderr
    assert "Traceback" not in run.stdout + run.stderr
