"""All that a deployment stores, in an account of Azure Storage."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from shared.adapters.azure_storage.attempts import StorageAttempts
from shared.adapters.azure_storage.blobs import StorageDeadLetters, StoragePayloads
from shared.adapters.azure_storage.clients import StorageClients
from shared.adapters.azure_storage.metrics import StorageMetrics
from shared.adapters.azure_storage.queues import StorageQueues
from shared.adapters.azure_storage.sender import MessagePut, Send, StorageSender
from shared.adapters.azure_storage.tables import StorageResources
from shared.adapters.azure_storage.traits import AZURE_STORAGE
from shared.engine.ports import Queue, Threads

if TYPE_CHECKING:
    from shared.engine.ports.measures import StoreMeasure

_PUT_THREADS = 4  # of each pool


def _ignore(_: Queue) -> None:
    pass


class AzureStore:
    """
    Store on the account *own*; dead letters go into the accounts of *others*, too, by name.

    *send* sends requests for messages on the event loop. *visible* hears of each message that was
    put and is not hidden.
    """

    def __init__(
        self,
        own: StorageClients,
        threads: Threads,
        send: Send,
        *,
        others: Mapping[str, StorageClients] | None = None,
        visible: Callable[[Queue], object] = _ignore,
    ) -> None:
        self.account = own.account_name
        self.traits = AZURE_STORAGE
        self.catalogue_version = None  # A table has no number that changes with its rows.
        self.fault = ""  # Each request tells for itself.
        self._own = own
        self._others = others or {}
        self._threads = threads
        self._send = send
        self.documents = StorageResources(own)
        self.queues = StorageQueues(own)
        self.sender = StorageSender(own, send, threads.pool("queues", _PUT_THREADS), visible)
        self.payloads = StoragePayloads(own, threads)
        self.dead_letters = StorageDeadLetters(own, self._others)
        self.attempts = StorageAttempts(own)
        self.counts = StorageMetrics(own)

    def unfinished(self) -> None:
        """Tell nothing: queues know no subscriptions."""

    def measures(self) -> Sequence[StoreMeasure]:
        """Return nothing: Azure Monitor measures the account."""
        return ()

    def message_puts(self, others: Collection[str]) -> dict[str, MessagePut]:
        """Return what puts messages into queues of users, by account: the own one and *others*."""
        accounts = {self.account: self._own} | {
            name: each for name, each in self._others.items() if name in others
        }
        off_loop = self._threads.pool("destinations", _PUT_THREADS)
        return {name: MessagePut(each, self._send, off_loop) for name, each in accounts.items()}
