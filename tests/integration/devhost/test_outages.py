"""Storage that goes and comes back: each trigger says so once, and no message is lost."""

from __future__ import annotations

import contextlib
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from azure.storage.queue import QueueClient

from devhost import azurite as azurite_module
from tests.host.proxy import Door, door_to
from tests.host.running import until
from tests.integration.devhost.functions import HELLO, HTTP, QUEUE, TICK, TIMER, WORK
from tests.integration.devhost.program import Program


@pytest.fixture
def doors(azurite) -> Iterator[tuple[Door, Door, str]]:
    """Doors before blobs and queues, and the way through them."""
    blob, queue = (urlsplit(url).port or 0 for url in (azurite.blob_url, azurite.queue_url))
    with door_to(blob) as blobs, door_to(queue) as queues:
        way = azurite.connection_string
        for port, door in ((blob, blobs), (queue, queues)):
            way = way.replace(f":{port}/", f":{door.port}/")
        yield blobs, queues, way


def test_a_host_that_starts_without_storage_finds_it_later(start, function, doors, queue):
    blobs, queues, way = doors
    blobs.shut()
    queues.shut()
    function("good", HELLO, **HTTP)
    function("work", WORK, queueName=queue.queue_name, **QUEUE)
    function("clock", TICK, **TIMER)

    host = start(AzureWebJobsStorage=way)

    assert host.get("/good") == (200, b"hello")
    host.wait_for(f"queue {queue.queue_name}: storage fails, still trying")
    host.wait_for("timer clock: storage fails, still trying")
    queue.send_message("early")
    blobs.open()
    queues.open()
    host.wait_for("out early")
    host.wait_for("clock  ok")
    host.assert_said("still trying", 2)
    host.assert_said("works again", 2)
    host.assert_no_traceback()


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
    share = host.cpu_share(15)
    assert host.get("/good") == (200, b"hello")
    time.sleep(began + 60 - time.monotonic())
    ticks = host.count("clock  ok")
    blobs.open()
    queues.open()

    host.wait_for("out meanwhile")
    until(lambda: host.count("out slow one") == 2)
    queue.send_message("after")
    host.wait_for("out after")
    until(lambda: queue.get_queue_properties().approximate_message_count == 0)
    until(lambda: host.count("clock  ok") > ticks)
    told = host.troubles(known)
    expected = [
        f"queue {queue.queue_name}, message ",
        f"queue {queue.queue_name}: storage fails, still trying",
        f"queue {queue.queue_name}: storage works again",
        "timer clock: its lease was lost, trying for it again",
        "timer clock: storage fails, still trying",
        "timer clock: storage works again",
    ]
    assert len(told) == len(expected), "\n".join(told)
    for line, start_of_line in zip(told, expected, strict=True):
        assert line.startswith(start_of_line)
    host.assert_no_traceback()
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
    assert other.count("clock  ok") == 0

    blobs.shut()
    until(lambda: other.count("clock  ok") > 0)
    cut_off.wait_for("timer clock: its lease was lost, trying for it again")
    blobs.open()
    cut_off.wait_for("timer clock: storage works again")

    ticks = cut_off.count("clock  ok"), other.count("clock  ok")
    until(lambda: other.count("clock  ok") > ticks[1] + 3)
    assert cut_off.count("clock  ok") == ticks[0]
    cut_off.assert_no_traceback()


def test_azurite_restarted_loses_no_message(start, function, tmp_path):
    function("work", WORK, queueName="jobs", **QUEUE)
    function("clock", "def main(tick): ...", **TIMER)
    ports = azurite_module._free_ports(3)
    with contextlib.ExitStack() as first, contextlib.ExitStack() as last:
        storage = first.enter_context(kept_azurite(tmp_path / "kept", ports))
        jobs = last.enter_context(QueueClient.from_connection_string(storage, "jobs"))
        jobs.create_queue()
        host: Program = start("--invisibility", "5", AzureWebJobsStorage=storage)
        host.wait_for("clock  ok")
        jobs.send_message("parked", visibility_timeout=3)
        jobs.send_message("slow one")
        host.wait_for("in slow one")

        first.close()
        host.wait_for("queue jobs: storage fails")
        time.sleep(1)
        ticks = host.count("clock  ok")
        with kept_azurite(tmp_path / "kept", ports):
            host.wait_for("queue jobs: storage works again")
            host.wait_for("out slow one")
            host.wait_for("out parked")
            until(lambda: jobs.get_queue_properties().approximate_message_count == 0)
            until(lambda: host.count("clock  ok") > ticks + 1)
            host.assert_no_traceback()
            assert host.stop() == 0


@contextlib.contextmanager
def kept_azurite(folder: Path, ports: list[int]) -> Iterator[str]:
    """Run an Azurite that keeps what it has in *folder*; gives its connection string."""
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
        assert azurite_module._answers(process, "http", ports)
        yield azurite_module._azurite(process, "http", ports).connection_string
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
