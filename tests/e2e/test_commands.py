"""The commands of the README, as a newcomer types them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import requests

from testbed.subscriber import PATIENCE
from tests.commands import Command, children, is_running
from tests.host.running import until

ROOT = Path(__file__).parents[2]


def test_the_demo_shows_every_step():
    run = subprocess.run(
        [sys.executable, "-m", "cli", "demo", "--once"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stderr == ""
    for part in (
        "recovering   attempt 2: 503 Busy; next at",
        "because of minimum for 503",
        "=> the recovering subscriber received it at the third attempt",
        '"deadLetterReason": "UndeliverableDueToHttpBadRequest"',
        "The demo is complete.",
    ):
        assert part in run.stdout


VALIDATION = {"aeg-event-type": "SubscriptionValidation", "aeg-subscription-name": "CRM"}
DELETION = VALIDATION | {"aeg-event-type": "SubscriptionDeletion"}


def test_the_listener_tells_people_of_handshakes_deletions_and_headers_of_their_own():
    headers = {"aeg-subscription-name": "CRM", "aeg-delivery-count": "1", "x-team": "sales"}
    command = [sys.executable, "-m", "cli", "listen", "--port", "0", "--answer", "503"]
    with Command(command, ROOT, os.environ) as listener:
        url = listener.see("listening at").split()[-1]
        requests.post(url, json=[{"data": {"validationCode": "c"}}], headers=VALIDATION, timeout=60)
        requests.options(url, headers={"WebHook-Request-Origin": "o"}, timeout=60)
        requests.post(url, json=[{"id": "2"}], headers=DELETION, timeout=60)
        requests.post(url, json={"id": "1"}, headers=headers, timeout=60)
        listener.process.send_signal(signal.SIGINT)
        assert listener.process.wait(PATIENCE) == 0

    assert listener.lines[1:5] == [
        "CRM, handshake, accepted",
        "CloudEvents, handshake, accepted",
        "CRM, deleted: it sends no more events",
        "CRM, attempt 2, answered 503:",
    ]
    assert "  x-team: sales" in listener.lines[5:]
    assert not any("aeg-" in line for line in listener.lines[5:])


def test_a_benchmark_that_is_ended_leaves_nothing_running():
    bench = subprocess.Popen(
        [sys.executable, "-m", "bench", "price", "--case", "paced"],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert bench.stderr
    with bench.stderr:
        until(lambda: any("devhost" in command for command in children(bench.pid).values()))
        beside = children(bench.pid)

        bench.terminate()

        assert bench.wait(120) == 130
        assert "Traceback" not in bench.stderr.read()
    until(lambda: not [pid for pid in beside if is_running(pid)])
