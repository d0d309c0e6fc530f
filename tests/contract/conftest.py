"""The storages on which the adapters must do what the fakes do."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator

import pytest
from azure.core.exceptions import ResourceNotFoundError

from devhost.azurite import Azurite
from shared.adapters.storage.account import StorageAccount
from shared.storage_setting import storage_setting
from tests.managed_identity import SecuredStorage, running_secured_storage


@pytest.fixture(scope="session")
def secured_storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredStorage]:
    with running_secured_storage(tmp_path_factory.mktemp("authority")) as storage:
        yield storage


@pytest.fixture(params=["memory", "azurite", "identity"])
def kind(request: pytest.FixtureRequest) -> str:
    """Name what a test runs on: a fake, Azurite by key, or Azurite by identity over TLS."""
    return str(request.param)


@pytest.fixture
def account(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[StorageAccount | None]:
    """Give an account with names of its own, which are deleted afterwards; ``None``: memory."""
    if kind == "memory":
        yield None
        return
    if kind == "azurite":
        azurite: Azurite = request.getfixturevalue("azurite")
        setting = {"": azurite.connection_string}
    else:
        secured: SecuredStorage = request.getfixturevalue("secured_storage")
        for name, value in secured.environ.items():
            monkeypatch.setenv(name, value)
        setting = dict(storage_setting("AzureWebJobsStorage", secured.settings))
    made = StorageAccount(setting, prefix=f"t{uuid.uuid4().hex[:12]}")
    yield made
    _delete_all(made)


def _delete_all(account: StorageAccount) -> None:
    """Delete what the test has made: Azurite is slower with every message it holds."""
    for kind, client in list(account._made.items()):
        with contextlib.suppress(ResourceNotFoundError):
            if kind.startswith("queue "):
                client.delete_queue()
            elif kind.startswith("table "):
                client.delete_table()
    if "blobs" in account._made:
        for container in account._blobs().list_containers(account._prefix):
            account._blobs().delete_container(container.name)
