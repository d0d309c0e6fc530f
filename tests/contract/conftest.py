"""The storages on which the adapters must do what the fakes do."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from shared.adapters.storage.account import StorageAccount
from shared.storage_setting import storage_setting
from tests.managed_identity import SecuredStorage, running_secured_storage


@pytest.fixture(scope="session")
def secured_storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredStorage]:
    with running_secured_storage(tmp_path_factory.mktemp("authority")) as storage:
        yield storage


@pytest.fixture
def account_on(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], StorageAccount]:
    """Give an account with names of its own, by key (`azurite`) or by `identity`, over TLS."""

    def account(kind: str) -> StorageAccount:
        if kind == "azurite":
            setting = {"": request.getfixturevalue("azurite").connection_string}
        else:
            secured: SecuredStorage = request.getfixturevalue("secured_storage")
            for name, value in secured.environ.items():
                monkeypatch.setenv(name, value)
            setting = dict(storage_setting("AzureWebJobsStorage", secured.settings))
        return StorageAccount(setting, prefix=f"t{uuid.uuid4().hex[:12]}")

    return account
