"""The whole product: the host as a process, Azurite, scripted subscribers, the official SDK."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from azure.mgmt.eventgrid import EventGridManagementClient

from devhost.azurite import Azurite
from devhost.process import RunningHost, running_host
from testbed.arm import Arm
from testbed.host_settings import host_settings
from testbed.subscriber import Answer, Subscriber, running_subscriber
from tests.e2e.dead_letters import DeadLetters
from tests.e2e.managing import management_client


@pytest.fixture(scope="module")
def host(own_azurite: Azurite, request: pytest.FixtureRequest) -> Iterator[RunningHost]:
    """The host, at ten times the speed of a day; a module's ``TIME_SCALE`` wins."""
    settings = host_settings(
        own_azurite,
        PUSHGRID_TIME_SCALE=str(getattr(request.module, "TIME_SCALE", 10)),
        PUSHGRID_CLIENT_IP_HEADER="X-Forwarded-For",
    )
    with running_host(settings) as running:
        yield running


@pytest.fixture
def arm(host: RunningHost) -> Arm:
    return Arm(host.url)


@pytest.fixture
def dead_letters(own_azurite: Azurite) -> DeadLetters:
    return DeadLetters.into_a_new_container(own_azurite)


@pytest.fixture
def subscriber() -> Iterator[Callable[..., Subscriber]]:
    """Start as many subscribers as a test wants."""
    with ExitStack() as stack:

        def start(answer: Answer | None = None, **options: Any) -> Subscriber:
            return stack.enter_context(running_subscriber(answer, **options))

        yield start


@pytest.fixture
def client(host: RunningHost) -> Iterator[EventGridManagementClient]:
    """Give the official management client."""
    with management_client(host.url) as client:
        yield client


@pytest.fixture
def name() -> str:
    """Give a name that nothing has."""
    return f"t-{uuid.uuid4().hex[:8]}"
