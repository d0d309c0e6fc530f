"""What all tests share: marks by folder, a clean environment, one Azurite."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from devhost.azurite import Azurite, running_azurite

_MARKED = {"contract", "integration", "e2e", "host", "perf", "worker"}

# The developer's own settings must not reach the tests.
for _name in list(os.environ):
    if _name.startswith(("PUSHGRID_", "AzureWebJobs")):
        del os.environ[_name]

# No deadlines: how long an example takes says nothing on a busy machine.
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", derandomize=True, deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test by the folder it is in."""
    tests = config.rootpath / "tests"
    for item in items:
        path = Path(item.path)
        if path.is_relative_to(tests) and (folder := path.relative_to(tests).parts[0]) in _MARKED:
            item.add_marker(folder)


@pytest.fixture(scope="session")
def azurite() -> Iterator[Azurite]:
    """Run one Azurite for all tests: they keep apart by names."""
    with running_azurite() as running:
        yield running
