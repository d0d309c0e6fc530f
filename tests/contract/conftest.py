"""The storages on which the adapters must do what the fakes do."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import monotonic

import pytest
from azure.core.exceptions import ResourceNotFoundError

from devhost.azurite import Azurite, running_azurite
from pushgrid.testing.memory import FakeClock, MemoryStore
from shared.adapters.azure_storage.clients import StorageClients
from shared.adapters.azure_storage.connection_setting import Service, connections_beside
from shared.adapters.azure_storage.store import AzureStore
from shared.adapters.sql.sqlite.store import SqliteStore
from shared.engine.ports import Store
from shared.settings.storage_settings import deadletter_accounts, storage_setting
from shared.wiring.outbound import storage_pusher
from testbed.postgres import PostgresServer
from tests.managed_identity import SecuredStorage, running_secured_storage
from tests.senders import THREADS
from tests.without_loop import at_once

OTHER = "archive1"
NO_ACCOUNT = ("memory", "sqlite", "postgresql")


@pytest.fixture(scope="session")
def secured_storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredStorage]:
    with running_secured_storage(tmp_path_factory.mktemp("authority")) as storage:
        yield storage


@pytest.fixture(params=["memory", "sqlite", "postgresql", "azurite", "identity"])
def kind(request: pytest.FixtureRequest) -> str:
    """Name what a test runs on: a fake, a database, Azurite by key, or by identity over TLS."""
    return str(request.param)


@pytest.fixture
def account(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[StorageClients | None]:
    """Give an account with names of its own, which are deleted afterwards; ``None``: no Azurite."""
    if kind in NO_ACCOUNT:
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
    made = StorageClients(setting, prefix=f"t{uuid.uuid4().hex[:12]}")
    yield made
    _delete_all(made)


@pytest.fixture
def clock() -> FakeClock:
    """Give the clock of what is in memory."""
    return FakeClock()


@pytest.fixture
def stored(
    kind: str,
    account: StorageClients | None,
    clock: FakeClock,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[Store]:
    """Give an empty store, of the kind that a test runs on."""
    url = "https://events.example/blobs"
    if kind == "sqlite":
        folder = tmp_path / "data"
        with closing(SqliteStore(folder, clock=clock, threads=THREADS, blob_url=url)) as sql:
            yield sql
        return
    if kind == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        with server.new_store(clock=clock, threads=THREADS, blob_url=url) as on_server:
            yield on_server
        return
    if account is None:
        yield MemoryStore(clock, at_once)
        return
    pusher = storage_pusher(monotonic)
    yield AzureStore(account, THREADS, pusher.send)
    THREADS.on_loop(pusher.close())


@pytest.fixture(scope="session")
def other_azurite() -> Iterator[Azurite]:
    with running_azurite(account=OTHER) as azurite:
        yield azurite


@pytest.fixture(scope="session")
def other_secured_azurite(secured_storage: SecuredStorage) -> Iterator[Azurite]:
    """Run an account that takes tokens only, trusted like the app's own."""
    certificate = secured_storage.authority.issue("127.0.0.1")
    with running_azurite(certificate=certificate, account=OTHER) as azurite:
        yield azurite


@pytest.fixture
def other_account(
    kind: str, account: StorageClients | None, request: pytest.FixtureRequest
) -> Iterator[StorageClients | None]:
    """Give the account `OTHER` as an operator names it for dead letters; ``None``: no Azurite."""
    if account is None:
        yield None
        return
    if kind == "azurite":
        azurite: Azurite = request.getfixturevalue("other_azurite")
        own = {"": "UseDevelopmentStorage=true"}
        named = deadletter_accounts(f"{OTHER}=ARCHIVE", {"ARCHIVE": azurite.connection_string})
    else:
        secured: SecuredStorage = request.getfixturevalue("secured_storage")
        azurite = request.getfixturevalue("other_secured_azurite")
        own = dict(storage_setting("AzureWebJobsStorage", secured.settings))
        named = deadletter_accounts(f"{OTHER}={azurite.blob_url}", {})
    prefix = f"t{uuid.uuid4().hex[:12]}"
    (connection,) = connections_beside(own, named).values()
    made = StorageClients(connection, prefix=prefix, services=[Service.BLOB])
    yield made
    _delete_all(made)


def _delete_all(account: StorageClients) -> None:
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
