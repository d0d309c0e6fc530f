"""The commands of the README, as a newcomer types them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import requests

ROOT = Path(__file__).parents[2]


def test_the_demo_tells_its_whole_story():
    run = subprocess.run(
        [sys.executable, "-m", "cli", "demo", "--once"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )

    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stderr == ""
    for part in (
        "recovering   attempt 2: 503 Busy; next at",
        "because of minimum for 503",
        "=> the recovering subscriber took it at the third attempt",
        '"deadLetterReason": "UndeliverableDueToHttpBadRequest"',
        "The story is complete.",
    ):
        assert part in run.stdout


def test_the_listener_accepts_the_handshake_and_prints_what_it_gets():
    process = subprocess.Popen(
        [sys.executable, "-m", "cli", "listen", "--port", "0", "--json"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    try:
        url = process.stdout.readline().split()[-1]
        validation = [{"data": {"validationCode": "c-1"}}]
        accepted = requests.post(
            url, json=validation, headers={"aeg-event-type": "SubscriptionValidation"}, timeout=10
        )
        pushed = requests.post(
            url, json=[{"id": "1"}], headers={"aeg-delivery-count": "0"}, timeout=10
        )
        printed = json.loads(process.stdout.readline())
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(10)
        process.stdout.close()

    assert accepted.json() == {"validationResponse": "c-1"}
    assert pushed.status_code == 200
    assert printed["body"] == [{"id": "1"}]
    assert process.returncode == 0
