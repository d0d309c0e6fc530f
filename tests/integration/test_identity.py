"""What goes wrong with an identity: no token, no right, nobody whom to trust."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import timedelta

import pytest
from azure.core.exceptions import AzureError, ClientAuthenticationError, ServiceRequestError
from azure.core.pipeline.transport import HttpTransport

from devhost.queue.storage import RestQueue
from devhost.storage.account import find_account
from devhost.storage.errors import StorageBusyError, StorageRefusedError
from shared.adapters.azure_storage.clients import StorageClients
from shared.engine.ports import Queue
from shared.errors import StorageUnavailable
from shared.settings.storage_settings import storage_setting
from tests.managed_identity import SecuredStorage, running_secured_storage
from tests.senders import OnLoopSender, sender_of

NAME = "AzureWebJobsStorage"
#: Seconds after which a wait ends for what does not come.
PATIENCE = 60.0
SenderWith = Callable[[Mapping[str, str]], OnLoopSender]


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
    running.endpoint.claims = {}


@pytest.fixture
def sender_with(storage: SecuredStorage) -> Iterator[SenderWith]:
    """Give senders by their settings, which trust whom the environment names when they are made."""
    assert storage
    with ExitStack() as senders:
        yield lambda settings: senders.enter_context(
            sender_of(StorageClients(storage_setting(NAME, settings)))
        )


def cause_of(act: Callable[[], object]) -> BaseException | None:
    with pytest.raises(StorageUnavailable) as raised:
        act()
    return raised.value.__cause__


def put_in_the_end(sender: OnLoopSender) -> object:
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
            await queue.receive(1, timedelta(seconds=1))
            return True

    with ThreadPoolExecutor(1) as threads:
        return asyncio.run(ask())


@pytest.mark.parametrize("fault", ["broken", "hanging"])
def test_an_identity_endpoint_that_is_down_is_an_outage_and_no_more(
    storage: SecuredStorage, sender_with: SenderWith, fault: str
):
    """The token library repeats a 5xx answer for 5 s: the outage may end that much later."""
    sender = sender_with(storage.settings)
    setattr(storage.endpoint, fault, True)

    cause = cause_of(lambda: sender.put(Queue.WAITING, "text"))  # while the fault lasts

    assert isinstance(cause, AzureError)
    setattr(storage.endpoint, fault, False)
    assert put_in_the_end(sender)


def test_nobody_waits_as_long_as_an_identity_endpoint_asks_for(
    storage: SecuredStorage, sender_with: SenderWith, monkeypatch: pytest.MonkeyPatch
):
    slept: list[float] = []
    monkeypatch.setattr(HttpTransport, "sleep", lambda _, seconds: slept.append(seconds))
    storage.endpoint.broken = True

    cause_of(lambda: sender_with(storage.settings).put(Queue.WAITING, "text"))
    with pytest.raises(StorageBusyError, match="no token"):
        is_there_for_the_host(storage.settings)

    assert sum(slept) < 16


def test_an_identity_that_the_app_does_not_have_gets_no_token(
    storage: SecuredStorage, sender_with: SenderWith
):
    other = storage.settings | {f"{NAME}__clientId": "of-another-app"}

    cause = cause_of(lambda: sender_with(other).put(Queue.WAITING, "text"))

    assert isinstance(cause, ClientAuthenticationError)
    assert storage.endpoint.asked[-1]["client_id"] == "of-another-app"


def test_a_token_for_something_else_opens_nothing(storage: SecuredStorage, sender_with: SenderWith):
    storage.endpoint.claims = {"aud": "https://vault.azure.net"}

    cause = cause_of(lambda: sender_with(storage.settings).put(Queue.WAITING, "text"))

    assert isinstance(cause, ClientAuthenticationError)
    with pytest.raises(StorageRefusedError, match="403"):
        is_there_for_the_host(storage.settings)


def test_a_storage_of_a_trusted_authority_is_used(storage: SecuredStorage, sender_with: SenderWith):
    assert sender_with(storage.settings).put(Queue.DELIVERIES, "text")
    assert is_there_for_the_host(storage.settings)


def test_a_storage_that_nobody_vouches_for_gets_no_token(
    storage: SecuredStorage, sender_with: SenderWith, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("REQUESTS_CA_BUNDLE")
    monkeypatch.delenv("SSL_CERT_FILE")

    cause = cause_of(lambda: sender_with(storage.settings).put(Queue.DELIVERIES, "text"))

    assert isinstance(cause, ServiceRequestError)
    assert "CERTIFICATE_VERIFY_FAILED" in str(cause)
    with pytest.raises(StorageBusyError, match="SSLCertVerificationError"):
        is_there_for_the_host(storage.settings)
