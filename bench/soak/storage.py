"""Runs Azurite behind a proxy, and gives access to what the app has stored, past the proxy."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from azure.core.exceptions import AzureError, ResourceExistsError
from azure.storage.blob import (
    BlobLeaseClient,
    BlobServiceClient,
    ResourceTypes,
    generate_account_sas,
)
from azure.storage.queue import QueueServiceClient

from bench.soak.ledger import events_in
from devhost.azurite import ACCOUNT, KEY, Azurite, running_azurite
from testbed.storage_proxy import StorageProxy, running_storage_proxy


@dataclass(slots=True, kw_only=True)
class Storage:
    """Azurite, which can be stopped, killed and started while its proxy runs."""

    azurite: Azurite
    proxy: StorageProxy
    _folder: Path | None
    _running: ExitStack

    def stop(self) -> None:
        """Stop Azurite, whose data stays on disk."""
        self._running.close()

    def kill(self) -> None:
        """Kill Azurite: what it has not saved is gone."""
        self.azurite.process.kill()
        self.azurite.process.wait()
        self._running.close()

    def start(self) -> None:
        self.azurite = self._running.enter_context(running_azurite(folder=self._folder))
        self.proxy.stand_before(self.azurite)

    def saved(self, database: str) -> Path:
        """Return the file in which Azurite saves a database, such as ``db_queue``."""
        return Path(self._folder or "") / f"__azurite_{database}__.json"

    def queues(self) -> QueueServiceClient:
        return QueueServiceClient.from_connection_string(self.azurite.connection_string)

    def blobs(self) -> BlobServiceClient:
        return BlobServiceClient.from_connection_string(self.azurite.connection_string)

    def create(self, containers: Iterable[str], queues: Iterable[str]) -> None:
        with self.blobs() as to_blobs, self.queues() as to_queues:
            for name in containers:
                to_blobs.create_container(name)
            for name in queues:
                to_queues.create_queue(name)

    def messages(self) -> int:
        """Return the number of messages on all queues, hidden or not."""
        with self.queues() as queues:
            named = [queues.get_queue_client(each) for each in queues.list_queues()]
            return sum(each.get_queue_properties().approximate_message_count or 0 for each in named)

    def put(self, queue: str, text: str) -> None:
        """Put a message on a queue; the app may not have made it yet."""
        with self.queues() as queues:
            client = queues.get_queue_client(queue)
            with suppress(ResourceExistsError):
                client.create_queue()
            client.send_message(text)

    def delete_queues(self) -> None:
        with self.queues() as queues:
            for each in queues.list_queues():
                queues.delete_queue(each)

    def dead_letters(self, container: str) -> list[dict[str, Any]]:
        """Return the records of all blobs of a container."""
        with self.blobs() as blobs:
            client = blobs.get_container_client(container)
            bodies = [client.download_blob(each) for each in client.list_blob_names()]
            return [letter for body in bodies for letter in events_in(body.readall())]

    def expire_locks(self) -> None:
        """Let expire the leases of timers, which Azure keeps for at least 15 seconds."""
        with self.blobs() as blobs, suppress(AzureError):
            locks = blobs.get_container_client("azure-webjobs-hosts")
            for path in locks.list_blob_names(name_starts_with="locks/"):
                with suppress(AzureError):
                    BlobLeaseClient(locks.get_blob_client(path)).break_lease(0)


@contextmanager
def running_storage(*, is_on_disk: bool) -> Iterator[Storage]:
    """Run Azurite behind a proxy until the block ends; only data on disk outlives a stop."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) if is_on_disk else None
        running = stack.enter_context(ExitStack())
        azurite = running.enter_context(running_azurite(folder=folder))
        proxy = stack.enter_context(running_storage_proxy(azurite))
        _sign_by_query(proxy)
        yield Storage(azurite=azurite, proxy=proxy, _folder=folder, _running=running)


def _sign_by_query(proxy: StorageProxy) -> None:
    """Give hosts a signature that stays valid when the proxy changes a request."""
    signature = generate_account_sas(
        ACCOUNT,
        KEY,
        resource_types=ResourceTypes(service=True, container=True, object=True),
        permission="rwdlacup",
        expiry="2099-01-01T00:00:00Z",
        services="bqt",
    )
    azurite = proxy.azurite
    proxy.azurite = replace(
        azurite,
        connection_string=f"BlobEndpoint={azurite.blob_url};QueueEndpoint={azurite.queue_url};"
        f"TableEndpoint={azurite.table_url};SharedAccessSignature={signature}",
    )
