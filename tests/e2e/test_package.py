"""
What is uploaded runs by itself, and without a secret, as on Azure.

From a copy that cannot be written, with its own packages, identity settings, TLS and tokens.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from devhost.process import RunningHost, running_host
from testbed.arm import ADMIN_KEY, Arm
from testbed.host_settings import host_settings
from tests.e2e.dead_letters import DeadLetters
from tests.e2e.packaged import SITE_PACKAGES, Package, install
from tests.e2e.story import TIME_SCALE, Story, play
from tests.managed_identity import (
    CLIENT,
    STORAGE_AUDIENCE,
    running_secured_storage,
)

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def package() -> Iterator[Package]:
    with tempfile.TemporaryDirectory() as folder:  # which it removes although it is read-only
        yield install(Path(folder))


def test_the_story_on_the_uploaded_files_without_a_secret(package: Package):
    before = package.files()
    authority = package.host / "authority"
    authority.mkdir()
    with running_secured_storage(authority) as storage:
        settings = host_settings(
            storage.azurite,
            PUSHGRID_TIME_SCALE=TIME_SCALE,
            **storage.environ,
        )
        del settings["AzureWebJobsStorage"]
        settings |= storage.settings
        with running_host(settings, root=package.root, program=package.program) as host:
            story = play(host, DeadLetters.into_a_new_container(storage.azurite, storage.authority))
            # That endpoint gives tokens to whoever asks from here: no subscriber may be there.
            with pytest.raises(requests.HTTPError, match="address not allowed"):
                Arm(host.url).create_subscription(
                    story.topic, "thief", storage.endpoint.environ["IDENTITY_ENDPOINT"]
                )
            timeline = _timeline(host, story)

    _check_files(package, before, host)
    assert [len(each["attempts"]) for each in timeline["value"]] == [2, 2]
    asked = storage.endpoint.asked
    assert {each["client_id"] for each in asked} == {CLIENT}
    assert {each["resource"] for each in asked} == {STORAGE_AUDIENCE}
    assert len(asked) < 40, (
        "a token serves hundreds of requests; threads that begin at once ask each"
    )
    assert not any("eyJ" in line for line in host.lines), "a token in the log"


def _timeline(host: RunningHost, story: Story) -> Any:
    """Ask the host, from this checkout, what became of the recovering events."""
    options = ["--json", "--topic", story.topic, "--subscription", "recovering"]
    timeline = subprocess.run(
        [sys.executable, "-m", "cli", "timeline", *options, "--url", host.url, "--key", ADMIN_KEY],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert timeline.returncode == 0, timeline.stderr
    return json.loads(timeline.stdout)


def _check_files(package: Package, before: dict[Path, int], host: RunningHost) -> None:
    """Nothing was written, and nothing loaded but from the package, the host and Python."""
    assert package.files() == before
    (line,) = (line for line in host.lines if line.startswith("loaded "))
    loaded = json.loads(line.removeprefix("loaded "))
    files = {Path(file) for file in loaded["files"]}
    known = (package.root, package.host, Path(loaded["standard"]))
    strangers = {file for file in files if not any(map(file.is_relative_to, known))}
    assert strangers == set()
    assert package.root / "shared/wiring/outbound.py" in files
    assert package.root / SITE_PACKAGES / "azure/identity/__init__.py" in files
    assert package.root / SITE_PACKAGES / "azure/functions/__init__.py" in files
