"""What all tests share: marks by folder, a clean environment, Azurite, subscribers."""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from devhost.azurite import Azurite, running_azurite
from testbed.postgres import PostgresServer, running_postgres
from testbed.subscriber import Answer, Subscriber, running_subscriber

_MARKED = {"browser", "contract", "integration", "e2e", "host", "perf", "worker", "fuzz"}
#: Seconds for each test of another host than ours, which hides a message for ten minutes.
_ANOTHER_HOST = 3600

#: What takes longest begins first, so that no process ends long after the others.
_FIRST = (
    *("e2e/test_soak.py", "simulation", "conformance", "e2e/test_serve_soak.py"),
    *("e2e/test_serve.py", "e2e/test_notice_kills.py", "browser", "fuzz", "host", "e2e"),
    "integration",
)

# The developer's own settings must not reach the tests.
for _name in list(os.environ):
    if _name.startswith(("PUSHGRID_", "AzureWebJobs")):
        del os.environ[_name]

# It is ignored in a shell's background job, and would be in the programs that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadlines: how long an example takes says nothing on a busy machine.
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", derandomize=True, deadline=None)
_profile = "ci" if os.environ.get("CI") else "dev"
settings.load_profile(_profile)
# `make check` tries each law a little, and `make test` in full. A limit at a law would hold for
# both, so there is none.
settings.register_profile("quick", settings.get_profile(_profile), max_examples=20)


# Modules and tests stay to the end: while they are collected there is no garbage to look for.
gc.disable()


def pytest_collection_finish() -> None:
    """Look for garbage from now on, but not among what was collected."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test by the folder it is in, limit its time, and begin with what takes longest."""
    tests = config.rootpath / "tests"

    def folder_of(item: pytest.Item) -> str:
        path = Path(item.path)
        return path.relative_to(tests).parts[0] if path.is_relative_to(tests) else ""

    def place_of(item: pytest.Item) -> int:
        path = f"{Path(item.path).relative_to(config.rootpath)}/"
        places = (place for place, each in enumerate(_FIRST) if path.startswith(f"tests/{each}/"))
        return next(places, len(_FIRST))

    items.sort(key=place_of)  # stable: random within
    for item in items:
        folder = folder_of(item)
        if folder in _MARKED:
            item.add_marker(folder)
        if folder == "host" and os.environ.get("HOST_CMD"):
            item.add_marker(pytest.mark.timeout(_ANOTHER_HOST))


@pytest.fixture(scope="session")
def azurite() -> Iterator[Azurite]:
    """Run one Azurite for all tests: they keep apart by names."""
    with running_azurite() as running:
        yield running


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Run one PostgreSQL for all tests: they keep apart by schemas and databases."""
    with running_postgres() as running:
        yield running


@pytest.fixture(scope="module")
def own_azurite() -> Iterator[Azurite]:
    """An Azurite for the tests of one module: its queues have fixed names."""
    with running_azurite() as azurite:
        yield azurite


@pytest.fixture
def subscriber() -> Iterator[Callable[..., Subscriber]]:
    """Start as many subscribers as a test wants."""
    with ExitStack() as stack:

        def start(answer: Answer | None = None, **options: Any) -> Subscriber:
            return stack.enter_context(running_subscriber(answer, **options))

        yield start


@pytest.fixture
def name() -> str:
    """Give a name that nothing has."""
    return f"t-{uuid.uuid4().hex[:8]}"


_figures: list[str] = []


@pytest.fixture
def report() -> Callable[[str], None]:
    """Keep a figure for the end of the run's output."""
    return _figures.append


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print what was measured, and the seed of the order, which -q hides in the header."""
    if _figures:
        terminalreporter.section("figures")
        for figure in _figures:
            terminalreporter.line(figure)
    seed = config.getoption("randomly_seed", None)
    if seed is not None:
        terminalreporter.line(f"To repeat this order: --randomly-seed={seed}")


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Callable[[str], list[dict[str, Any]]]:
    """Give what was logged under a name."""
    caplog.set_level(logging.INFO, "pushgrid")

    def lines(event: str) -> list[dict[str, Any]]:
        found = [json.loads(record.getMessage()) for record in caplog.records]
        return [line for line in found if line["event"] == event]

    return lines
