"""`python -m devhost` from its start to its end, with functions of all kinds."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from azure.storage.queue import QueueClient

from devhost.errors import HostError
from devhost.process import running_host
from tests.host.running import PATIENCE, until
from tests.integration.devhost.functions import HELLO, HTTP, QUEUE, TIMER, WAIT, WORK

LENGTH = "def main(req): return str(len(req.get_body()))"
WAITING = WAIT + "def main(req):\n    wait()\n    return 'late'"


def test_an_app_of_all_three_kinds(start, function):
    """HTTP, queue and timer on a private Azurite; Ctrl-C ends them all."""
    function("web", LENGTH, **HTTP)
    function("work", WORK, queueName="%QUEUE%", **QUEUE)
    function("clock", "def main(tick): assert not tick.past_due", **TIMER)

    host = start("--azurite", "--env", "QUEUE=jobs")

    assert host.get("/web", data=b"x" * 1_500_000) == (200, b"1500000")
    assert host.get("/nothing") == (404, b"")
    with QueueClient.from_connection_string(host.connection_string, "jobs") as jobs:
        jobs.create_queue()
        jobs.send_message("hello")
        host.wait_for("out hello")
        host.wait_for("work   ok")
        until(lambda: jobs.get_queue_properties().approximate_message_count == 0)
    host.wait_for("clock  ok")
    assert host.stop() == 0
    host.assert_said("local.settings.json", 0)


OWN_HEADER = """
import azure.functions as func
def main(req): return func.HttpResponse("x", headers={"x-content-type-options": "nosniff"})
"""


def test_no_answer_is_for_a_browser_to_guess_the_type_of(start, function):
    function("web", LENGTH, **HTTP)
    function("own", OWN_HEADER, **HTTP)
    function("bad", "def main(req): raise ValueError", **HTTP)
    host = start(FUNCTIONS_REQUEST_BODY_SIZE_LIMIT="3")

    def exchange(line: str, *headers: str, body: str = "") -> tuple[int, int]:
        head = "\r\n".join((line, *headers, "Connection: close", "", body))
        with socket.create_connection(("127.0.0.1", urlsplit(host.url).port)) as client:
            client.sendall(head.encode())
            answer = client.makefile("rb").read().decode().lower()
        return int(answer.split()[1]), answer.count("x-content-type-options: nosniff\r\n")

    here = "Host: localhost"
    assert [
        exchange("GET / HTTP/1.1", here),
        exchange("GET /web HTTP/1.1", here),
        exchange("GET /own HTTP/1.1", here),
        exchange("GET /bad HTTP/1.1", here),
        exchange("GET /none HTTP/1.1", here),
        exchange("GET /admin/host/status HTTP/1.1", here, "Origin: null"),
        exchange("GET / HTTP/1.1", "Host: shop.example"),
        exchange("GET / HTTP/1.1"),
        exchange("no request", here),
        exchange("POST /web HTTP/1.1", here, "Content-Length: 4", body="abcd"),
    ] == [(each, 1) for each in (200, 200, 200, 500, 404, 403, 400, 400, 400, 500)]


def test_a_limit_of_bodies_that_is_no_number_is_ignored(start, function):
    """Source: azure-functions-host HttpRequestBodySizeMiddleware.cs (2024-10)."""
    function("web", LENGTH, **HTTP)
    host = start(FUNCTIONS_REQUEST_BODY_SIZE_LIMIT="2 MiB")

    assert host.get("/web", data=b"four") == (200, b"4")
    host.assert_said("WARNING setting FUNCTIONS_REQUEST_BODY_SIZE_LIMIT is not a number", 1)


@pytest.mark.skipif(sys.platform == "darwin", reason="127.0.0.2 would have to be configured")
def test_it_listens_on_the_address_that_is_given(start, function):
    function("web", LENGTH, **HTTP)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        host = start("--host", "127.0.0.2", "--port", str(port))

        assert host.url == f"http://127.0.0.2:{port}"
        assert host.get("/web", data=b"abc") == (200, b"3")


OPENS_AT_STOP = """
import pathlib, sys
gate = pathlib.Path(__file__).parents[1] / 'gate'
sys.modules['__host__'].at_stop(gate.touch)
def main(req): ...
"""


def test_an_app_hears_of_the_stop_before_its_work_is_awaited(start, function):
    """What the function waits for, the app itself does at the stop."""
    function("web", WAITING, **HTTP)
    function("opens", OPENS_AT_STOP, **HTTP)
    host = start()
    with ThreadPoolExecutor(1) as client:
        answer = client.submit(host.get, "/web")
        host.wait_for("web  waiting")

        host.process.send_signal(signal.SIGTERM)

        assert answer.result() == (200, b"late")
    assert host.end() == 0


ENDS_ITSELF = """
import asyncio, sys
async def end():
    await asyncio.sleep(0)
    print('the app has ended', flush=True)
sys.modules['__host__'].at_end(end)
def main(req): ...
"""


def test_what_runs_is_finished_before_the_end(start, function, tmp_path, azurite, queue):
    """
    A request, a message and a function started by hand, and then the app's own work; no other
    message is received.
    """
    function("web", WAITING, **HTTP)
    function("ends", ENDS_ITSELF, **HTTP)
    function("work", WORK, queueName=queue.queue_name, **QUEUE)
    function("hand", WORK, queueName="never", **QUEUE)
    host = start(AzureWebJobsStorage=azurite.connection_string)
    queue.send_message("slow")
    assert host.get("/admin/functions/hand", data=b'{"input": "slow hand"}') == (202, b"")
    with ThreadPoolExecutor(1) as client:
        answer = client.submit(host.get, "/web")
        for name in ("web", "work", "hand"):
            host.wait_for(f"{name}  waiting")

        host.process.send_signal(signal.SIGTERM)
        host.wait_for("Stopping (3 invocations running); press Ctrl-C again to force")
        queue.send_message("too late")
        (tmp_path / "gate").touch()

        assert answer.result() == (200, b"late")
    assert host.end() == 0
    for name in ("web", "work", "hand"):
        host.assert_said(f"{name:<4}  ok", 1)
    assert host.lines[-1] == "the app has ended"
    (message,) = queue.peek_messages(max_messages=5)
    assert message.content == "too late"


@pytest.mark.parametrize("inherited", [signal.default_int_handler, signal.SIG_IGN])
def test_an_interruption_ends_the_start_as_well(start, function, tmp_path, inherited):
    """Python leaves SIGINT ignored in a shell's background jobs."""
    function("web", f"{WAIT}wait()\ndef main(req): return 'hello'", **HTTP)
    before = signal.signal(signal.SIGINT, inherited)
    host = start()
    signal.signal(signal.SIGINT, before)
    host.wait_for("waiting")

    host.process.send_signal(signal.SIGINT)
    (tmp_path / "gate").touch()

    assert host.end() == 130
    host.assert_said("devhost: interrupted", 1)


def test_a_second_signal_forces_the_end(start, function):
    function("web", WAITING, **HTTP)
    host = start()
    with ThreadPoolExecutor(1) as client:
        client.submit(host.get, "/web")
        host.wait_for("web  waiting")
        host.process.send_signal(signal.SIGINT)
        host.wait_for("Stopping (1 invocation running)")

        assert host.stop() == 130


AT_END = """
import atexit, pathlib, threading, time
atexit.register(threading.Event().wait)
atexit.register(pathlib.Path(__file__).with_name("end").write_text, "written")
def main(req):
    threading.Thread(target=threading.Event().wait).start()
    return "hello"
"""


def test_what_the_app_registered_for_its_end_is_run(start, function, tmp_path):
    """A function or a thread that never ends does not delay it; it may never end itself."""
    function("web", AT_END, **HTTP)
    function("stuck", WAITING, **HTTP)
    host = start(AzureFunctionsJobHost__functionTimeout="00:00:01")
    assert host.get("/web") == (200, b"hello")
    assert host.get("/stuck") == (500, b"")
    host.wait_for("TimeoutError: functionTimeout of 1 s exceeded")

    assert host.stop() == 0

    assert (tmp_path / "web" / "end").read_text() == "written"


def test_disabled_functions_run_only_by_hand(start, function, azurite, queue):
    """An enabled twin shows when the disabled function would have run."""
    queues = (queue.queue_name, f"{queue.queue_name}-2")
    function("web", HELLO, **HTTP)
    function("work", WORK, queueName=queues[0], **QUEUE)
    function("work2", WORK, queueName=queues[1], **QUEUE)
    queue.send_message("hello")
    off = {f"AzureWebJobs.{name}.Disabled": "true" for name in ("web", "work")}

    host = start(AzureWebJobsStorage=azurite.connection_string, **off)

    assert host.get("/web") == (404, b"")
    with QueueClient.from_connection_string(azurite.connection_string, queues[1]) as twin:
        twin.create_queue()
        twin.send_message("twin")
        host.wait_for("out twin")
    host.assert_said("out hello", 0)
    assert host.get("/admin/functions/work", data=b'{"input": "by hand"}') == (202, b"")
    host.wait_for("out by hand")


def test_settings_reach_the_functions_before_they_are_imported(start, function, tmp_path):
    source = "import os\nSEEN = f\"{os.environ['A']} {os.environ['B']} {os.environ['C']}\"\n"
    function("web", source + "def main(req): return SEEN", **HTTP)
    values = '{"Values": {"A": "file", "B": "file", "C": "file"}}'
    (tmp_path / "local.settings.json").write_text(values)

    quiet = {"AzureFunctionsJobHost__logging__logLevel__Function": "Warning"}
    host = start("--env", "C=given", B="environment", C="environment", **quiet)

    assert host.get("/web") == (200, b"file environment given")
    host.assert_said("  ok  ", 0)
    host.assert_said("WARNING setting B: the environment overrides local.settings.json", 1)
    host.assert_said("WARNING setting", 1)


def test_settings_of_a_child_override_its_file_and_are_not_in_its_command_line(function, tmp_path):
    function("web", "import os\ndef main(req): return os.environ['A']", **HTTP)
    (tmp_path / "local.settings.json").write_text('{"Values": {"A": "file"}}')

    with running_host({"A": "secret"}, options=["--azurite"], root=tmp_path) as host:
        command = Path(f"/proc/{host.process.pid}/cmdline").read_text()
        with urllib.request.urlopen(f"{host.url}/web") as answer:
            assert answer.read() == b"secret"

    assert "secret" not in command
    assert not [line for line in host.lines if "WARNING" in line]


def test_a_child_that_cannot_start_says_why_in_one_line(tmp_path):
    with pytest.raises(HostError, match=r"^no host\.json in "), running_host({}, root=tmp_path):
        pass


def test_a_reader_that_goes_away_does_not_end_the_host(function, tmp_path):
    function("web", LENGTH, **HTTP)
    command = [sys.executable, "-m", "devhost", "--root", str(tmp_path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        url = next(line for line in host.stdout if line.startswith("ready ")).split()[1]
        host.stdout.close()

        for _ in range(3):
            with urllib.request.urlopen(f"{url}/web", timeout=PATIENCE) as answer:
                assert answer.read() == b"0"
        host.terminate()

        assert host.wait(PATIENCE) == 0


def test_responses_are_not_held_back_and_have_a_current_date(start, function):
    """
    Nagle's algorithm delays each response to requests in quick succession by some 40 ms.

    A busy machine may delay most of them as well, but not all.
    """
    function("web", LENGTH, **HTTP)
    client = HTTPConnection(start().url.removeprefix("http://"), timeout=PATIENCE)
    dates = set()

    def ask() -> float:
        began = time.monotonic()
        client.request("GET", "/web")
        answer = client.getresponse()
        assert answer.read() == b"0"
        said = parsedate_to_datetime(answer.headers["Date"]).timestamp()
        assert said <= time.time()
        dates.add(said)
        return time.monotonic() - began

    assert until(lambda: min([ask() for _ in range(40)][20:]) < 0.03)
    assert until(lambda: ask() and len(dates) > 2)
    client.close()


@pytest.mark.parametrize(
    "started",
    [
        "from devhost.azurite import running_azurite\nwith running_azurite() as a:",
        "import devhost.process as host\nwith host.running_host({}, options=['--azurite']) as a:",
    ],
    ids=["Azurite", "host"],
)
def test_what_was_started_ends_with_a_process_that_is_killed(started: str):
    source = f"import threading\n{started}\n print(a.process.pid, flush=True)\n"
    source += " threading.Event().wait()"
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
    # A zombie has ended; its new parent has not collected it yet.
    status = Path(f"/proc/{pid}/stat").read_text()
    return status.rsplit(")", 1)[1].split()[0] != "Z"
