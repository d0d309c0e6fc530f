"""What all rows share: a storage account, and apps in folders of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.host.app import App
from tests.host.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from devhost.azurite import Azurite


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
    """The settings that every app needs."""
    return {
        "AzureWebJobsStorage": storage.connection_string,
        "FUNCTIONS_WORKER_RUNTIME": "python",
        "PYTHON_THREADPOOL_THREAD_COUNT": "32",
    }
