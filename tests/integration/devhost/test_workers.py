"""`python -m devhost --workers 2`: one port, one clock, and a worker that dies is restarted."""

import os
import signal

import pytest

from devhost.workers import next_delay
from tests.host.running import until
from tests.integration.devhost.functions import HTTP, QUEUE, TIMER, WORK
from tests.integration.devhost.program import Program
from tests.integration.devhost.test_command import is_running

PID = "import os\ndef main(req): return str(os.getpid())"
CLOCK = "import logging, os\ndef main(tick): logging.info('ticks in %s', os.getpid())"


def workers(host: Program) -> set[int]:
    """Return the processes that answer; each request comes on a connection of its own."""
    pids: set[int] = set()

    def ask() -> bool:
        status, body = host.get("/web")
        assert status == 200
        pids.add(int(body))
        return len(pids) == 2

    assert until(ask)
    return pids


@pytest.fixture
def host(start, function, azurite, queue):
    """A host of two workers, with functions of all kinds."""
    function("web", PID, **HTTP)
    function("work", WORK, queueName=queue.queue_name, **QUEUE)
    function("clock", CLOCK, **TIMER)
    two = ("--workers", "2", "--invisibility", "2")
    return start(*two, AzureWebJobsStorage=azurite.connection_string)


def test_a_killed_worker_is_replaced_and_loses_nothing(host, queue):
    first = workers(host)
    until(lambda: host.count("ticks in") >= 3)
    (clock,) = {int(line.split()[-1]) for line in host.lines if "ticks in" in line}
    (killed,) = first - {clock}
    for number in range(10):
        queue.send_message(f"before {number}")
    os.kill(killed, signal.SIGKILL)
    again = "messages that it had received come again within 2 s"
    host.wait_for(f"ended (signal 9): starts in 1 s; {again}")
    for number in range(10):
        queue.send_message(f"after {number}")
        assert host.get("/web")[0] == 200

    host.wait_for("serves again")
    second = workers(host)

    assert clock in second
    assert killed not in second
    for number in range(10):
        host.wait_for(f"out before {number}")
        host.wait_for(f"out after {number}")
    assert {line.split()[-1] for line in host.lines if "ticks in" in line} == {str(clock)}
    host.assert_said("ready ", 1)
    host.assert_said("storage is failing", 0)  # another has the timer's lease: no outage
    host.assert_said("queue  ", 1)  # the list of functions
    assert host.stop(signal.SIGTERM) == 0
    assert not any(map(is_running, second))


def test_workers_end_with_the_process_that_started_them(host):
    pids = workers(host)

    host.process.kill()

    assert until(lambda: not any(map(is_running, pids)))


def test_workers_that_cannot_start_say_so_once(start, function):
    function("web", "class Fault(Exception): ends_host = True\nraise Fault('no key')", **HTTP)
    host = start("--workers", "2")

    assert host.end() == 1
    host.assert_said("no key", 1)


def test_starts_are_delayed_longer_and_longer():
    delays = [0.0]
    for ran in (0, 0, 59, 0, 0, 0, 0, 60):
        delays.append(next_delay(delays[-1], ran))

    assert delays == [0, 1, 2, 4, 8, 16, 30, 30, 1]
