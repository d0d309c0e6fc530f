"""Stories of the other modules here, on `pushgrid serve`: the same tests, another deployment."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest
from _pytest.fixtures import FixtureFunctionDefinition

from devhost.process import RunningHost
from testbed.places import ServedDatabase, ServedFolder, ServedPlace
from testbed.postgres import PostgresServer
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

#: What reaches statements of its own in a database: of all that is managed, stored and settled.
_IN_A_DATABASE = {
    test_apply,
    test_batches,
    test_custom_schema,
    test_limits,
    test_management_sdk,
    test_metrics,
    test_pushgrid_command,
    test_signed_deliveries,
}

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


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tell some stories of a server in a database, too."""
    if "host" in metafunc.fixturenames:
        told = {__name__, *(each.__name__ for each in _IN_A_DATABASE)}
        places = ["sqlite", *["postgresql"] * (metafunc.function.__module__ in told)]
        metafunc.parametrize("place", places, indirect=True, scope="module")


@pytest.fixture(scope="module")
def place(request: pytest.FixtureRequest) -> ServedPlace:
    if request.param == "sqlite":
        factory: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")
        return ServedFolder(factory.mktemp("serve") / "data")
    postgres: PostgresServer = request.getfixturevalue("postgres")
    return ServedDatabase(postgres.url(postgres.new_database()))


@pytest.fixture(scope="module")
def host(place: ServedPlace) -> Iterator[RunningHost]:
    settings = server_settings(PUSHGRID_TIME_SCALE=story.TIME_SCALE, **OPEN_TO_TESTS)
    with running_server(place, settings) as server:
        yield server


for _module in _TOLD:
    _tell_again(_module)


def test_the_main_job(host: RunningHost, place: ServedPlace):
    story.play(host, StoredDeadLetters(place))
