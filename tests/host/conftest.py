"""A storage account, apps in folders of their own, and their settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from devhost.azurite import Azurite
from tests.host.app import App
from tests.host.storage import Storage


@pytest.fixture(scope="session")
def storage(azurite: Azurite) -> Iterator[Storage]:
    account = Storage(azurite)
    yield account
    account.close()


@pytest.fixture(scope="session")
def new_app(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], App]:
    """Make an app without functions."""
    return lambda: App(tmp_path_factory.mktemp("app"))


@pytest.fixture(scope="session")
def settings(storage: Storage) -> dict[str, str]:
    """The settings of every app."""
    return {
        "AzureWebJobsStorage": storage.connection_string,
        "FUNCTIONS_WORKER_RUNTIME": "python",
        "PYTHON_THREADPOOL_THREAD_COUNT": "32",
    }
