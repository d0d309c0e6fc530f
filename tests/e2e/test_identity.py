"""The whole product without a secret: identity settings, TLS, tokens; as on Azure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import requests

from devhost.process import running_host
from testbed.arm import Arm
from testbed.host_settings import host_settings
from tests.e2e.dead_letters import DeadLetters
from tests.e2e.story import TIME_SCALE, play
from tests.managed_identity import CLIENT, STORAGE_AUDIENCE, running_secured_storage

ROOT = Path(__file__).parents[2]
TIMELINE = [sys.executable, "-m", "cli", "timeline", "--json"]


def test_the_story_without_a_secret(tmp_path: Path):
    with running_secured_storage(tmp_path) as storage:
        settings = host_settings(
            storage.azurite,
            AzureWebJobsStorage="",  # local.settings.json has one
            PUSHGRID_TIME_SCALE=TIME_SCALE,
            **storage.settings,
            **storage.environ,
        )
        with running_host(settings) as host:
            story = play(host, DeadLetters.into_a_new_container(storage.azurite, storage.authority))
            # That endpoint gives tokens to whoever asks from here: no subscriber may be there.
            with pytest.raises(requests.HTTPError, match="address not allowed"):
                Arm(host.url).create_subscription(
                    story.topic, "thief", storage.endpoint.environ["IDENTITY_ENDPOINT"]
                )
        timeline = subprocess.run(
            [*TIMELINE, "--topic", story.topic, "--subscription", "recovering"],
            cwd=ROOT,
            env=os.environ | storage.settings | storage.environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    assert timeline.returncode == 0, timeline.stderr
    (small, large) = json.loads(timeline.stdout)["events"]
    assert [len(small["attempts"]), len(large["attempts"])] == [2, 2]
    asked = storage.endpoint.asked
    assert {each["client_id"] for each in asked} == {CLIENT}
    assert {each["resource"] for each in asked} == {STORAGE_AUDIENCE}
    assert len(asked) < 40, (
        "a token serves hundreds of requests; threads that begin at once ask each"
    )
    assert not any("eyJ" in line for line in host.lines), "a token in the log"
