"""The whole product: the host as a process, Azurite, scripted subscribers, the official SDK."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from azure.mgmt.eventgrid import EventGridManagementClient

from devhost.azurite import Azurite, running_azurite
from devhost.process import RunningHost, running_host
from testbed.arm import ADMIN_KEY, Arm
from testbed.host_settings import host_settings
from tests.commands import Run, runner
from tests.e2e.dead_letters import DeadLetters
from tests.e2e.managing import management_client

#: Settings of a deployment that tests call in all ways.
OPEN_TO_TESTS = {
    "PUSHGRID_ADMIN_KEY_2": "the-second-admin-key-of-tests",
    "PUSHGRID_READER_KEY": "the-reader-s-key-of-tests",
    "PUSHGRID_AZ_LOGIN": "true",
    "PUSHGRID_LOCAL_SHORTCUTS": "true",
}


@pytest.fixture(scope="session")
def shared_host() -> Iterator[RunningHost]:
    """A host at ten times the speed of a day, for all tests that keep apart by names."""
    with running_azurite() as azurite, running_host(_settings(azurite, 10)) as running:
        yield running


@pytest.fixture(scope="module")
def host(request: pytest.FixtureRequest) -> Iterator[RunningHost]:
    """The shared host; a module that says its ``TIME_SCALE`` has one on a storage of its own."""
    scale = getattr(request.module, "TIME_SCALE", None)
    if scale is None:
        yield request.getfixturevalue("shared_host")
    else:
        with running_host(_settings(request.getfixturevalue("own_azurite"), scale)) as running:
            yield running


def _settings(azurite: Azurite, scale: float) -> dict[str, str]:
    return host_settings(
        azurite,
        PUSHGRID_TIME_SCALE=str(scale),
        PUSHGRID_CLIENT_IP_HEADER="X-Forwarded-For",
        **OPEN_TO_TESTS,
    )


@pytest.fixture
def arm(host: RunningHost) -> Arm:
    return Arm(host.url)


@pytest.fixture
def dead_letters(own_azurite: Azurite) -> DeadLetters:
    return DeadLetters.into_a_new_container(own_azurite)


@pytest.fixture
def client(host: RunningHost) -> Iterator[EventGridManagementClient]:
    """Give the official management client."""
    with management_client(host.url) as client:
        yield client


@pytest.fixture
def pushgrid(
    host: RunningHost, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Run the command on the host; return its exit code, output and errors."""
    return runner(monkeypatch, capsys, host.url, ADMIN_KEY)
