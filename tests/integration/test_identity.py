"""What goes wrong with an identity: no token, no right, nobody whom to trust."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from azure.core.exceptions import AzureError, ClientAuthenticationError, ServiceRequestError
from azure.core.pipeline.transport import HttpTransport

from devhost.queue.storage import RestQueue
from devhost.storage.account import find_account
from devhost.storage.errors import StorageBusyError, StorageRefusedError
from shared.adapters.http.push import HttpPusher
from shared.adapters.storage.account import StorageAccount
from shared.adapters.storage.queues import StorageQueues
from shared.engine.ports import Queue
from shared.errors import StorageUnavailable
from shared.storage_setting import storage_setting
from shared.wiring.outbound import storage_pusher
from tests.managed_identity import SecuredStorage, running_secured_storage

NAME = "AzureWebJobsStorage"
#: Seconds after which a wait ends for what does not come.
PATIENCE = 60.0
_pushers: list[HttpPusher] = []


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredStorage]:
    with running_secured_storage(tmp_path_factory.mktemp("authority")) as storage:
        yield storage


@pytest.fixture
def storage(running: SecuredStorage, monkeypatch: pytest.MonkeyPatch) -> Iterator[SecuredStorage]:
    for name, value in running.environ.items():
        monkeypatch.setenv(name, value)
    yield running
    running.endpoint.broken = running.endpoint.hanging = False
    running.endpoint.retry_after = ""
    running.endpoint.claims = {}
    while _pushers:
        _pushers.pop().close()


def queues(settings: Mapping[str, str]) -> StorageQueues:
    account = StorageAccount(storage_setting(NAME, settings))
    pusher = storage_pusher()  # trusts whom the environment names now
    _pushers.append(pusher)
    return StorageQueues(account, pusher.send)


def cause_of(act: Callable[[], object]) -> BaseException | None:
    with pytest.raises(StorageUnavailable) as raised:
        act()
    return raised.value.__cause__


def put_in_the_end(sender: StorageQueues) -> object:
    """Repeat a put while storage is unavailable."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return sender.put(Queue.WAITING, "text")
        except StorageUnavailable:
            assert time.monotonic() < end
            time.sleep(0.5)


def is_there_for_the_host(settings: Mapping[str, str]) -> bool:
    """Return whether the local host finds the queue."""

    async def ask() -> bool:
        with closing(RestQueue(find_account(NAME, settings), "deliveries", threads)) as queue:
            return await queue.exists()

    with ThreadPoolExecutor(1) as threads:
        return asyncio.run(ask())


@pytest.mark.parametrize("fault", ["broken", "hanging"])
def test_an_identity_endpoint_that_is_down_is_an_outage_and_no_more(
    storage: SecuredStorage, fault: str
):
    """The token library repeats a 5xx answer for 5 s: the outage may end that much later."""
    sender = queues(storage.settings)
    setattr(storage.endpoint, fault, True)

    cause = cause_of(lambda: sender.put(Queue.WAITING, "text"))  # while the fault lasts

    assert isinstance(cause, AzureError)
    setattr(storage.endpoint, fault, False)
    assert put_in_the_end(sender)


def test_nobody_waits_as_long_as_an_identity_endpoint_asks_for(
    storage: SecuredStorage, monkeypatch: pytest.MonkeyPatch
):
    slept: list[float] = []
    monkeypatch.setattr(HttpTransport, "sleep", lambda _, seconds: slept.append(seconds))
    storage.endpoint.broken, storage.endpoint.retry_after = True, "60"

    cause_of(lambda: queues(storage.settings).put(Queue.WAITING, "text"))
    with pytest.raises(StorageBusyError, match="no token"):
        is_there_for_the_host(storage.settings)

    assert sum(slept) < 16


def test_an_identity_that_the_app_does_not_have_gets_no_token(storage: SecuredStorage):
    other = storage.settings | {f"{NAME}__clientId": "of-another-app"}

    cause = cause_of(lambda: queues(other).put(Queue.WAITING, "text"))

    assert isinstance(cause, ClientAuthenticationError)
    assert storage.endpoint.asked[-1]["client_id"] == "of-another-app"


def test_a_token_for_something_else_opens_nothing(storage: SecuredStorage):
    storage.endpoint.claims = {"aud": "https://vault.azure.net"}

    cause = cause_of(lambda: queues(storage.settings).put(Queue.WAITING, "text"))

    assert isinstance(cause, ClientAuthenticationError)
    with pytest.raises(StorageRefusedError, match="403"):
        is_there_for_the_host(storage.settings)


def test_a_storage_of_a_trusted_authority_is_used(storage: SecuredStorage):
    assert queues(storage.settings).put(Queue.DELIVERIES, "text")
    assert is_there_for_the_host(storage.settings)


def test_a_storage_that_nobody_vouches_for_gets_no_token(
    storage: SecuredStorage, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("REQUESTS_CA_BUNDLE")
    monkeypatch.delenv("SSL_CERT_FILE")

    cause = cause_of(lambda: queues(storage.settings).put(Queue.DELIVERIES, "text"))

    assert isinstance(cause, ServiceRequestError)
    assert "CERTIFICATE_VERIFY_FAILED" in str(cause)
    with pytest.raises(StorageBusyError, match="TLS failed"):
        is_there_for_the_host(storage.settings)
