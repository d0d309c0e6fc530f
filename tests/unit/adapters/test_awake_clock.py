"""The clock that stands still while the process does."""

import os
import signal
import subprocess
import sys
import time

from shared.adapters.awake_clock import AwakeClock
from tests.unit.adapters.threads.test_thread_pool import no_more_threads

STOPPED = """
import sys, time
from shared.adapters.awake_clock import AwakeClock
awake_seconds = AwakeClock(beat=0.02, missed=0.1)
began, awake = time.monotonic(), awake_seconds()
print("begun", flush=True)
sys.stdin.readline()
print(time.monotonic() - began, awake_seconds() - awake)
"""


def test_it_does_not_pass_while_the_process_is_stopped() -> None:
    stopped_for = 0.8
    with subprocess.Popen(
        [sys.executable, "-c", STOPPED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        process.stdout.readline()
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        time.sleep(stopped_for)
        process.send_signal(signal.SIGCONT)
        passed, awake = map(float, process.communicate("\n")[0].split())

    assert passed >= stopped_for
    assert awake <= passed - stopped_for + 0.1


def test_it_is_the_systems_clock_while_the_process_runs() -> None:
    """Between two beats; what a beat has seen stays."""
    clock = AwakeClock(iter([100.0, 101.0, 101.5]).__next__)
    clock._beat = 100.0, 7.0

    assert [clock(), clock(), clock()] == [7.0, 8.0, 8.5]


def test_after_two_seconds_without_a_beat_it_stops() -> None:
    clock = AwakeClock(lambda: 1000.0)
    clock._beat = 100.0, 7.0

    assert clock() == 9.0


def test_without_a_thread_it_is_the_systems_clock() -> None:
    with no_more_threads():
        assert AwakeClock(lambda: 1000.0)() == 1000.0


def test_it_goes_on_in_a_fork() -> None:
    """Threads are not forked: the child's clock would stand still."""
    clock = AwakeClock()
    clock()
    clock._stop()

    began = clock()

    assert clock._beat is not None
    assert clock() >= began
