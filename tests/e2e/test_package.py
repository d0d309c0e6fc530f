"""What is uploaded runs by itself: from a copy that cannot be written, with its own packages."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from devhost.process import running_host
from testbed.host_settings import host_settings
from tests.e2e.dead_letters import DeadLetters
from tests.e2e.packaged import SITE_PACKAGES, Package, install
from tests.e2e.story import TIME_SCALE, play
from tests.managed_identity import running_secured_storage


@pytest.fixture(scope="session")
def package() -> Iterator[Package]:
    # Not below pytest's own folder, into which only its user may look.
    with tempfile.TemporaryDirectory(prefix="pushgrid-") as folder:
        Path(folder).chmod(0o755)
        yield install(Path(folder))


def test_the_story_on_the_uploaded_files_alone(package: Package, report: Callable[[str], None]):
    before = package.files()
    authority = package.host / "authority"  # where the app may read whom to trust
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
            play(host, DeadLetters.into_a_new_container(storage.azurite, storage.authority))

    assert package.files() == before
    (line,) = (line for line in host.lines if line.startswith("loaded "))
    loaded = json.loads(line.removeprefix("loaded "))
    files = {Path(file) for file in loaded["files"]}
    known = (package.root, package.host, Path(loaded["standard"]))
    strangers = {file for file in files if not any(map(file.is_relative_to, known))}
    assert strangers == set()
    assert package.root / "shared/wiring/storage.py" in files
    assert package.root / SITE_PACKAGES / "azure/identity/__init__.py" in files
    assert package.root / SITE_PACKAGES / "azure/functions/__init__.py" in files
    report(f"package of {len(before)} files, read-only by {package.how}")
