"""The commands of the README, as a newcomer types them."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import requests

from tests.commands import children, is_running
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


@contextlib.contextmanager
def listener(*options: str) -> Iterator[tuple[str, IO[str]]]:
    """Run `listen` until the block ends; yields where it answers, and what it prints from then."""
    process = subprocess.Popen(
        [sys.executable, "-m", "cli", "listen", "--port", "0", *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    assert process.stderr
    said = process.stderr if "--json" in options else process.stdout
    try:
        yield said.readline().split()[-1], process.stdout
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.stdout.close()
        process.stderr.close()


VALIDATION = {"aeg-event-type": "SubscriptionValidation", "aeg-subscription-name": "CRM"}
DELETION = VALIDATION | {"aeg-event-type": "SubscriptionDeletion"}


def test_the_listener_tells_people_of_handshakes_deletions_and_headers_of_their_own():
    headers = {"aeg-subscription-name": "CRM", "aeg-delivery-count": "1", "x-team": "sales"}
    with listener("--answer", "503") as (url, printed):
        requests.post(url, json=[{"data": {"validationCode": "c"}}], headers=VALIDATION, timeout=60)
        requests.options(url, headers={"WebHook-Request-Origin": "o"}, timeout=60)
        requests.post(url, json=[{"id": "2"}], headers=DELETION, timeout=60)
        requests.post(url, json={"id": "1"}, headers=headers, timeout=60)
        lines = [printed.readline().rstrip() for _ in range(4)]
        rest = [printed.readline().rstrip() for _ in range(7)]

    assert lines == [
        "CRM, handshake, accepted",
        "CloudEvents, handshake, accepted",
        "CRM, deleted: it sends no more events",
        "CRM, attempt 2, answered 503:",
    ]
    assert "  x-team: sales" in rest
    assert not any("aeg-" in line for line in rest)


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
