"""`python -m devhost`, with real functions on a real Azurite."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path

import pytest
from azure.storage.queue import QueueClient

from devhost.host import DRAIN_SECONDS
from tests.host.running import until
from tests.host.storage import Storage
from tests.integration.devhost.functions import HTTP, QUEUE, TIMER

ECHO = "def main(req): return str(len(req.get_body()))"
PRINT = "import logging\ndef main(message): logging.info('got %s', message.get_body().decode())"


def test_an_app_of_all_three_kinds(start, function):
    """HTTP, queue and timer on a private Azurite; Ctrl-C ends it all."""
    function("web", ECHO, **HTTP)
    function("work", PRINT, queueName="%QUEUE%", **QUEUE)
    function("clock", "def main(tick): assert not tick.past_due", **TIMER)

    host = start("--azurite", "--env", "QUEUE=jobs")

    assert host.get("/web", data=b"x" * 1_500_000) == (200, b"1500000")
    assert host.get("/nothing") == (404, b"")
    with QueueClient.from_connection_string(host.connection_string, "jobs") as jobs:
        jobs.create_queue()
        jobs.send_message("hello")
        host.wait_for("got hello")
        host.wait_for("work   ok")
        until(lambda: jobs.get_queue_properties().approximate_message_count == 0)
    host.wait_for("clock  ok")
    assert host.stop() == 0


def test_what_is_wrong_is_said_and_the_others_go_on(start, function, tmp_path):
    function("good", ECHO, **HTTP)
    function("bad_import", "import nothing_here", **HTTP)
    function("bad_setting", PRINT, queueName="%NONE%", **QUEUE)
    function("no_storage", PRINT, queueName="jobs", **QUEUE)
    function("bad_json", ECHO, **HTTP)
    (tmp_path / "bad_json" / "function.json").write_text("{")

    host = start()

    assert host.get("/good") == (200, b"0")
    assert host.get("/bad_import") == (500, b"")
    host.wait_for("ERROR  ModuleNotFoundError: No module named 'nothing_here'")
    host.wait_for("ERROR  setting NONE, named by queueName, is missing")
    host.wait_for("ERROR  setting AzureWebJobsStorage (where storage is) is missing")
    host.wait_for("ERROR  function.json is not JSON: line 1")


def test_a_port_in_use_is_one_line(start, function):
    function("good", ECHO, **HTTP)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        host = start("--port", str(port))

        assert host.end() == 1
    assert host.lines == [f"devhost: port {port} is in use: choose another with --port"]


@pytest.mark.parametrize("text", ["{", '{"version": "1.0"}'])
def test_a_malformed_host_json_is_one_line(start, tmp_path, text):
    (tmp_path / "host.json").write_text(text)

    host = start()

    assert host.end() == 1
    assert len(host.lines) == 1
    assert host.lines[0].startswith("devhost: host.json")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_runs_is_finished_before_the_end(start, function, azurite, queue, number):
    slow = "import logging, time\ndef main(message):\n logging.info('in')\n time.sleep(1.5)"
    function("slow", slow, queueName=queue.queue_name, **QUEUE)
    host = start(AzureWebJobsStorage=azurite.connection_string)
    queue.send_message("x")
    host.wait_for("slow  in")

    host.process.send_signal(number)
    host.wait_for("stopping: 1 running")
    queue.send_message("too late")

    assert host.end() == 0
    host.wait_for("slow  ok")
    assert queue.get_queue_properties().approximate_message_count == 1


def test_a_request_and_a_run_by_hand_are_finished_before_the_end(start, function):
    slow = "import logging, time\ndef main({}):\n logging.info('in')\n time.sleep({})\n{}"
    function("web", slow.format("req", 6, " return 'late'"), **HTTP)
    function("work", slow.format("message", 8, ""), queueName="jobs", **QUEUE)
    host = start("--azurite")
    assert host.get("/admin/functions/work", data=b"{}") == (202, b"")
    host.wait_for("work  in")
    with ThreadPoolExecutor(1) as client:
        answer = client.submit(host.get, "/web")
        host.wait_for("web  in")

        host.process.send_signal(signal.SIGINT)
        host.wait_for("stopping: 2 running")

        assert answer.result() == (200, b"late")
    assert host.end() == 0
    host.assert_said("work  ok", 1)


def test_half_a_minute_is_given_to_what_runs():
    """Source: azure-functions-core-tools, the allowance of a stop (2024-10)."""
    assert DRAIN_SECONDS == 30


def test_disabled_functions_are_run_by_hand_only(start, function, azurite, queue):
    """Source: docs, disable-function (2026)."""
    off = {f"AzureWebJobs.{name}.Disabled": "true" for name in ("web", "work", "clock")}
    function("good", ECHO, **HTTP)
    function("web", ECHO, **HTTP)
    function("work", PRINT, queueName=queue.queue_name, **QUEUE)
    function("clock", "def main(tick): ...", **TIMER)
    queue.send_message("hello")

    host = start(AzureWebJobsStorage=azurite.connection_string, **off)

    assert host.get("/good") == (200, b"0")
    assert host.get("/web") == (404, b"")
    time.sleep(2.5)
    host.assert_said("got hello", 0)
    host.assert_said("clock  ok", 0)
    assert host.get("/admin/functions/work", data=b'{"input": "by hand"}') == (202, b"")
    host.wait_for("got by hand")


AT_END = """
import atexit, pathlib, threading, time
atexit.register(time.sleep, {seconds})
atexit.register(pathlib.Path(__file__).with_name("end").write_text, "told")
def main(req):
    threading.Thread(target=time.sleep, args=(60,)).start()
    return "hello"
"""


@pytest.mark.parametrize("seconds", [0, 60])
def test_what_the_app_registered_for_its_end_is_done(start, function, tmp_path, seconds):
    """Neither a thread that does not end holds that up, nor what was registered the end."""
    function("web", AT_END.format(seconds=seconds), **HTTP)
    host = start()
    assert host.get("/web") == (200, b"hello")

    assert host.stop() == 0

    assert (tmp_path / "web" / "end").read_text() == "told"


def test_a_second_signal_ends_at_once(start, function):
    stuck = "import time\ndef main(req): time.sleep(60)"
    function("stuck", f"import logging\n{stuck}", **HTTP)
    host = start()
    with socket.create_connection(("127.0.0.1", int(host.url.rsplit(":", 1)[1]))) as client:
        client.sendall(b"GET /stuck HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(0.3)
        host.process.send_signal(signal.SIGINT)
        host.wait_for("stopping: 1 running")

        assert host.stop() == 130


def test_a_function_that_takes_too_long_fails_and_does_not_hold_up_the_end(start, function):
    function("stuck", "import time\ndef main(req): time.sleep(60)", **HTTP)
    host = start(AzureFunctionsJobHost__functionTimeout="00:00:01")

    assert host.get("/stuck") == (500, b"")

    host.wait_for("TimeoutError: functionTimeout of 1 s exceeded")
    assert host.stop() == 0


def test_a_schedule_is_of_the_settings_time_zone(start, function, azurite):
    """A full hour in India is half past one in UTC, all year."""
    function("clock", "def main(tick): ...", **(TIMER | {"schedule": "0 0 * * * *"}))
    host_id = f"zone{uuid.uuid4().hex[:8]}"
    storage = Storage(azurite)

    start(
        AzureWebJobsStorage=azurite.connection_string,
        AzureFunctionsWebHost__hostid=host_id,
        TZ="IST-5:30",
    )

    status = until(lambda: storage.timer_status(host_id, "clock"))
    storage.close()
    assert status["Next"].endswith(":00:00+05:30")


def test_functions_may_be_run_by_hand(start, function):
    function("work", PRINT, queueName="jobs", **QUEUE)
    host = start("--azurite")

    assert host.get("/admin/functions/work", data=b'{"input": "by hand"}') == (202, b"")

    host.wait_for("got by hand")


def test_settings_reach_the_functions_before_they_are_imported(start, function, tmp_path):
    source = "import os\nSEEN = f\"{os.environ['A']} {os.environ['B']} {os.environ['C']}\"\n"
    function("web", source + "def main(req): return SEEN", **HTTP)
    values = '{"Values": {"A": "file", "B": "file", "C": "file"}}'
    (tmp_path / "local.settings.json").write_text(values)

    host = start("--env", "C=given", B="environment", C="environment")

    assert host.get("/web") == (200, b"file environment given")


def test_a_reader_who_goes_away_does_not_end_the_host(function, tmp_path):
    function("web", ECHO, **HTTP)
    command = [sys.executable, "-m", "devhost", "--root", str(tmp_path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        url = next(line for line in host.stdout if line.startswith("ready ")).split()[1]
        host.stdout.close()

        for _ in range(3):
            with urllib.request.urlopen(f"{url}/web", timeout=20) as answer:
                assert answer.read() == b"0"
        host.terminate()

        assert host.wait(20) == 0


def test_answers_are_not_held_back(start, function):
    """Nagle's algorithm costs 40 ms for each answer on a connection that is kept."""
    function("web", ECHO, **HTTP)
    host = start()
    client = http.client.HTTPConnection(host.url.removeprefix("http://"), timeout=20)

    started = time.monotonic()
    for _ in range(50):
        client.request("GET", "/web")
        assert client.getresponse().read() == b"0"
    client.close()

    assert time.monotonic() - started < 1.5


def test_answers_say_when_they_were_given(start, function):
    function("web", ECHO, **HTTP)
    host = start()

    for _ in range(2):
        time.sleep(2.5)
        with urllib.request.urlopen(f"{host.url}/web", timeout=20) as answer:
            said = parsedate_to_datetime(answer.headers["Date"])
        assert timedelta(0) <= datetime.now(UTC) - said < timedelta(seconds=4)


def test_azurite_ends_with_whoever_started_it():
    source = (
        "import time\nfrom devhost.azurite import running_azurite\n"
        "with running_azurite() as a:\n print(a.process.pid, flush=True)\n time.sleep(60)"
    )
    command = [sys.executable, "-c", source]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()

    until(lambda: not is_running(pid))


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # Ended, and not yet collected by whoever is its parent now.
    status = Path(f"/proc/{pid}/stat").read_text()
    return status.rsplit(")", 1)[1].split()[0] != "Z"
