"""What goes wrong around the host: one clear line each, and it goes on by itself."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from azure.storage.queue import QueueClient

from devhost import azurite as azurite_module
from tests.host.proxy import Door, door_to
from tests.integration.devhost.conftest import Program

HTTP = {"type": "httpTrigger", "name": "req"}
QUEUE = {"type": "queueTrigger", "name": "message"}
TIMER = {"type": "timerTrigger", "name": "tick", "schedule": "* * * * * *"}
HELLO = "def main(req): return 'hello'"
TICK = "def main(tick): ..."
WORK = (
    "import logging, time\n"
    "def main(message):\n"
    "    text = message.get_body().decode()\n"
    "    logging.info('in %s', text)\n"
    "    time.sleep(2 if text.startswith('slow') else 0)\n"
    "    logging.info('out %s', text)\n"
)


@pytest.fixture
def queue(azurite) -> Iterator[QueueClient]:
    name = f"q{uuid.uuid4().hex}"
    with QueueClient.from_connection_string(azurite.connection_string, name) as client:
        client.create_queue()
        yield client


@pytest.fixture
def doors(azurite) -> Iterator[tuple[Door, Door, str]]:
    """Doors before blobs and queues, and the way through them."""
    blob, queue = (urlsplit(url).port or 0 for url in (azurite.blob_url, azurite.queue_url))
    with door_to(blob) as blobs, door_to(queue) as queues:
        way = azurite.connection_string
        for port, door in ((blob, blobs), (queue, queues)):
            way = way.replace(f":{port}/", f":{door.port}/")
        yield blobs, queues, way


def test_an_unknown_trigger_is_one_line_and_the_others_go_on(start, function):
    function("good", HELLO, **HTTP)
    function("odd", HELLO, type="cosmosDBTrigger", name="docs")

    host = start()

    assert host.get("/good") == (200, b"hello")
    host.wait_for("odd   ERROR  ")
    assert "cosmosDBTrigger" in host.wait_for("odd   ERROR  ")
    no_traceback(host)


def test_two_functions_of_one_route_are_told(start, function):
    function("first", "def main(req): return 'first'", route="same/{id}", **HTTP)
    function("other", "def main(req): return 'other'", route="SAME/{id}", **HTTP)
    function("posts", HELLO, route="same/{id}", methods=["delete"], **HTTP)

    host = start()

    assert host.get("/same/1") == (200, b"first")
    host.wait_for("other  never called: first has the same route")
    host.wait_for("posts  never called: first has the same route")
    no_traceback(host)


def test_a_host_that_starts_without_storage_finds_it_later(start, function, doors, queue):
    blobs, queues, way = doors
    blobs.shut()
    queues.shut()
    function("good", HELLO, **HTTP)
    function("work", WORK, queueName=queue.queue_name, **QUEUE)
    function("clock", TICK, **TIMER)

    host = start(AzureWebJobsStorage=way)

    assert host.get("/good") == (200, b"hello")
    host.wait_for(f"queue {queue.queue_name}: storage does not answer, still trying")
    host.wait_for("timer clock: storage does not answer, still trying")
    queue.send_message("early")
    blobs.open()
    queues.open()
    host.wait_for("out early")
    host.wait_for("clock  ok")
    said_once(host, "does not answer", 2)
    said_once(host, "answers again", 2)
    no_traceback(host)


def test_storage_that_goes_for_a_minute_loses_no_message(start, function, doors, queue):
    """
    Each trigger says once that storage is gone and once that it is back, and the host rests.

    The timer's lease of half a minute runs out meanwhile: it has to be told, and taken again.
    """
    blobs, queues, way = doors
    function("good", HELLO, **HTTP)
    function("work", WORK, queueName=queue.queue_name, **QUEUE)
    function("clock", TICK, **(TIMER | {"schedule": "*/5 * * * * *"}))
    host = start(
        *("--invisibility", "10"),
        AzureWebJobsStorage=way,
        AzureFunctionsJobHost__extensions__queues__maxPollingInterval="00:00:00.500",
        AzureFunctionsJobHost__singleton__listenerLockPeriod="00:00:30",
    )
    queue.send_message("before")
    host.wait_for("out before")
    host.wait_for("clock  ok")
    queue.send_message("slow one")
    host.wait_for("in slow one")

    began, known = time.monotonic(), len(host.lines)
    blobs.shut()
    queues.shut()
    queue.send_message("meanwhile")
    time.sleep(10)
    share = cpu_share(host, 45)
    assert host.get("/good") == (200, b"hello")
    time.sleep(began + 60 - time.monotonic())
    ticks = count(host, "clock  ok")
    blobs.open()
    queues.open()

    host.wait_for("out meanwhile")
    until(lambda: count(host, "out slow one") == 2)
    queue.send_message("after")
    host.wait_for("out after")
    until(lambda: queue.get_queue_properties().approximate_message_count == 0)
    until(lambda: count(host, "clock  ok") > ticks)
    told = troubles(host, known)
    expected = [
        f"queue {queue.queue_name}, message ",
        f"queue {queue.queue_name}: storage answers again",
        f"queue {queue.queue_name}: storage does not answer, still trying",
        "timer clock: its lease was lost, trying for it again",
        "timer clock: storage answers again",
        "timer clock: storage does not answer, still trying",
    ]
    assert len(told) == len(expected), "\n".join(told)
    for line, start_of_line in zip(told, expected, strict=True):
        assert line.startswith(start_of_line)
    no_traceback(host)
    assert share < 0.02


def test_a_host_cut_off_leaves_the_timer_to_another(start, function, doors, azurite):
    blobs, _, way = doors
    function("clock", TICK, **TIMER)
    lease = {
        "AzureFunctionsWebHost__hostid": f"pair{uuid.uuid4().hex[:8]}",
        "AzureFunctionsJobHost__singleton__listenerLockPeriod": "00:00:15",
        "AzureFunctionsJobHost__singleton__listenerLockRecoveryPollingInterval": "00:00:01",
    }
    cut_off = start(AzureWebJobsStorage=way, **lease)
    cut_off.wait_for("clock  ok")
    other = start(AzureWebJobsStorage=azurite.connection_string, **lease)
    other.wait_for("ready ")
    time.sleep(2)
    assert count(other, "clock  ok") == 0

    blobs.shut()
    until(lambda: count(other, "clock  ok") > 0)
    cut_off.wait_for("timer clock: its lease was lost, trying for it again")
    blobs.open()
    cut_off.wait_for("timer clock: storage answers again")

    ticks = count(cut_off, "clock  ok"), count(other, "clock  ok")
    until(lambda: count(other, "clock  ok") > ticks[1] + 3)
    assert count(cut_off, "clock  ok") == ticks[0]
    no_traceback(cut_off)


def test_a_queue_deleted_under_the_host_is_missed_and_found_again(start, function, azurite, queue):
    function("work", WORK, queueName=queue.queue_name, **QUEUE)
    host = start(AzureWebJobsStorage=azurite.connection_string)
    queue.send_message("before")
    host.wait_for("out before")

    queue.delete_queue()
    host.wait_for(f"queue {queue.queue_name} is gone, waiting for it")
    queue.create_queue()
    queue.send_message("after")

    host.wait_for("out after")
    host.wait_for(f"queue {queue.queue_name} is there again")
    said_once(host, "is gone", 1)
    no_traceback(host)


def test_a_queue_deleted_while_its_message_is_in_hand(start, function, azurite, queue):
    function("work", WORK, queueName=queue.queue_name, **QUEUE)
    host = start(AzureWebJobsStorage=azurite.connection_string)
    queue.send_message("slow")
    host.wait_for("in slow")

    queue.delete_queue()

    host.wait_for("out slow")
    host.wait_for("is gone")
    no_traceback(host)
    assert host.stop() == 0


def test_azurite_restarted_loses_no_message(start, function, tmp_path):
    function("work", WORK, queueName="jobs", **QUEUE)
    function("clock", "def main(tick): ...", **TIMER)
    ports = azurite_module._free_ports(3)
    storage = connection_string(ports)
    with (
        contextlib.ExitStack() as first,
        QueueClient.from_connection_string(storage, "jobs") as jobs,
    ):
        first.enter_context(kept_azurite(tmp_path / "kept", ports))
        jobs.create_queue()
        host: Program = start("--invisibility", "5", AzureWebJobsStorage=storage)
        host.wait_for("clock  ok")
        jobs.send_message("parked", visibility_timeout=3)
        jobs.send_message("slow one")
        host.wait_for("in slow one")

        first.close()
        host.wait_for("queue jobs: storage does not answer")
        time.sleep(1)
        ticks = count(host, "clock  ok")
        with kept_azurite(tmp_path / "kept", ports):
            host.wait_for("queue jobs: storage answers again")
            host.wait_for("out slow one")
            host.wait_for("out parked")
            until(lambda: jobs.get_queue_properties().approximate_message_count == 0)
            until(lambda: count(host, "clock  ok") > ticks + 1)
            no_traceback(host)
            assert host.stop() == 0


def test_an_idle_host_costs_next_to_nothing(start, function, azurite, queue):
    """Less than 2 % of a processor over ten seconds, with a queue, a timer and HTTP."""
    function("good", HELLO, **HTTP)
    function("work", WORK, queueName=queue.queue_name, **QUEUE)
    function("clock", TICK, **(TIMER | {"schedule": "*/5 * * * * *"}))
    host = start(
        AzureWebJobsStorage=azurite.connection_string,
        AzureFunctionsJobHost__extensions__queues__maxPollingInterval="00:00:00.500",
    )
    host.wait_for("clock  ok")

    assert cpu_share(host, 10) < 0.02


def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.05)


def count(host: Program, words: str) -> int:
    return sum(words in line for line in host.lines)


def said_once(host: Program, words: str, times: int) -> None:
    assert count(host, words) == times, "\n".join(host.lines)


def troubles(host: Program, known: int) -> list[str]:
    """Return what was printed after the first *known* lines, but for invocations; sorted."""
    usual = ("  ok  ", "  in ", "  out ")
    lines = [line for line in host.lines[known:] if not any(each in line for each in usual)]
    return sorted(line.split("  ", 1)[-1] for line in lines)


def no_traceback(host: Program) -> None:
    assert not any("Traceback" in line for line in host.lines), "\n".join(host.lines)


def cpu_share(host: Program, seconds: float) -> float:
    """Return which part of one processor *host* uses over so many seconds."""
    used, started = cpu_seconds(host), time.monotonic()
    time.sleep(seconds)
    return (cpu_seconds(host) - used) / (time.monotonic() - started)


def cpu_seconds(host: Program) -> float:
    fields = Path(f"/proc/{host.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def connection_string(ports: list[int]) -> str:
    name, key = azurite_module.ACCOUNT, azurite_module.KEY
    ends = ";".join(
        f"{service}Endpoint=http://127.0.0.1:{port}/{name}"
        for service, port in zip(("Blob", "Queue", "Table"), ports, strict=True)
    )
    return f"DefaultEndpointsProtocol=http;AccountName={name};AccountKey={key};{ends};"


@contextlib.contextmanager
def kept_azurite(folder: Path, ports: list[int]) -> Iterator[None]:
    """Run an Azurite that keeps what it has in *folder*."""
    flags = [
        flag
        for service, port in zip(("blob", "queue", "table"), ports, strict=True)
        for flag in azurite_module._where(service, port)
    ]
    quiet = ["--silent", "--disableTelemetry", "--skipApiVersionCheck", "--location", str(folder)]
    process = subprocess.Popen(
        [*azurite_module._command(), *quiet, *flags],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        assert azurite_module._answers(process, ports)
        yield
    finally:
        # It writes down what it has, and then waits for connections that are kept open.
        process.terminate()
        try:
            process.wait(4)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdin:
            process.stdin.close()
