"""Stories of the other modules here, on `pushgrid serve`: the same tests, another deployment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from _pytest.fixtures import FixtureFunctionDefinition

from devhost.process import RunningHost
from testbed.serving import running_server, server_settings
from tests.e2e import (
    story,
    test_apply,
    test_batches,
    test_careless_clients,
    test_cloudevents_receiver,
    test_custom_schema,
    test_handshakes,
    test_javascript_publisher,
    test_limits,
    test_management_sdk,
    test_metrics,
    test_official_sdk,
    test_pushgrid_command,
    test_signed_deliveries,
    test_traces,
)
from tests.e2e.conftest import OPEN_TO_TESTS
from tests.e2e.dead_letters import StoredDeadLetters

_TOLD = (
    test_apply,
    test_batches,
    test_careless_clients,
    test_cloudevents_receiver,
    test_custom_schema,
    test_handshakes,
    test_javascript_publisher,
    test_limits,
    test_management_sdk,
    test_metrics,
    test_official_sdk,
    test_pushgrid_command,
    test_signed_deliveries,
    test_traces,
)

#: What is about queues or accounts on Azure.
_NOT_HERE = {
    test_management_sdk.test_a_storage_queue_as_destination,
    test_management_sdk.test_storage_accounts_are_sources,
}


def _tell_again(module: ModuleType) -> None:
    """Collect the tests and fixtures of a module here as well."""
    for name, found in vars(module).items():
        if name.startswith("test_") and found not in _NOT_HERE:
            globals()[f"{module.__name__.rpartition('.')[2]}_{name}"] = found
        elif isinstance(found, FixtureFunctionDefinition):
            globals().setdefault(name, found)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("serve") / "data"


@pytest.fixture(scope="module")
def host(data: Path) -> Iterator[RunningHost]:
    settings = server_settings(PUSHGRID_TIME_SCALE=story.TIME_SCALE, **OPEN_TO_TESTS)
    with running_server(data, settings) as server:
        yield server


for _module in _TOLD:
    _tell_again(_module)


def test_the_main_job(host: RunningHost, data: Path):
    story.play(host, StoredDeadLetters(data))
