"""Makes the clients of the storage account, with one pool of connections and bounded retries."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from copy import copy
from datetime import UTC, datetime
from functools import lru_cache
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from shared.adapters.azure_storage.connection_setting import Service, StorageConnection

if TYPE_CHECKING:
    from azure.data.tables import TableClient, TableServiceClient
    from azure.storage.blob import BlobServiceClient, ContainerClient
    from azure.storage.queue import QueueClient, QueueServiceClient

    from shared.adapters.azure_storage.bounded_retry import BoundedRetry, BoundedTransport

PAYLOADS = "payloads"
POISON = "poison"
CONNECTIONS = 64

T = TypeVar("T")
Answered = Callable[[datetime | None, float], object]
_DATE = "%a, %d %b %Y %H:%M:%S GMT"  # RFC 9110, 5.6.7

# At INFO these write several lines a request, and the Functions worker runs the root at INFO.
_TALKATIVE = ("azure.core", "azure.identity", "azure.storage", "azure.data")


class StorageClients:
    """
    Makes the clients when they are first needed; they may be used from any thread.

    *storage* is a connection such as ``Settings.storage``, with the addresses of *services* at
    least. *prefix*, of lower-case letters and digits, precedes all names of queues, tables and
    containers, so that tests can share an account. *answered* gets of each answer the time
    that it tells, if it does, and how many seconds the exchange has taken. Requests are limited by
    *clock*, in seconds.
    """

    def __init__(
        self,
        storage: Mapping[str, str],
        *,
        prefix: str = "",
        services: Collection[Service] = tuple(Service),
        answered: Answered = lambda _told, _seconds: None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._answered = answered
        self.clock = clock
        self._connection = StorageConnection(storage, services)
        self._prefix = prefix
        self._lock = threading.RLock()
        self._made: dict[str, Any] = {}
        for name in _TALKATIVE:
            logging.getLogger(name).setLevel(logging.WARNING)

    def answered(self, date: str | None, took: float) -> None:
        """Tell of an answer with that header ``Date``, whose exchange took so many seconds."""
        self._answered(time_of(date), took)

    @property
    def account_name(self) -> str:
        return self._connection.account_name

    def queue(self, name: str) -> QueueClient:
        return self.foreign_queue(self._prefix + name)

    def foreign_queue(self, name: str) -> QueueClient:
        """Return the client of any queue of the account."""
        return self._once(f"queue {name}", lambda: self._queues().get_queue_client(name))

    def authorization_of_queues(self) -> Any:
        """Return a policy that authorizes requests as the clients of queues do; maybe ``None``."""
        # A pipeline chains its policies, so none can be in two.
        return copy(self._queues()._credential_policy)  # noqa: SLF001 - it has no other name

    def table(self, name: str) -> TableClient:
        from azure.data.tables import TableClient

        return self._once(
            f"table {name}",
            lambda: self._table_client(TableClient, table_name=self._prefix + name),
        )

    def tables_named(self, beginning: str) -> list[str]:
        """Return the names of the app's tables that begin with *beginning* and a digit."""
        start = self._prefix + beginning
        digits = f"TableName ge '{start}0' and TableName lt '{start}:'"
        found = self._tables().query_tables(digits)
        return [table.name.removeprefix(self._prefix) for table in found]

    def container(self, name: str) -> ContainerClient:
        return self.foreign_container(self._prefix + name)

    def foreign_container(self, name: str) -> ContainerClient:
        """Return the client of any container of the account."""
        return self._blobs().get_container_client(name)

    def _queues(self) -> QueueServiceClient:
        from azure.storage.queue import QueueServiceClient

        # A message that was changed has a new receipt.
        return self._once(
            "queues", lambda: self._client(QueueServiceClient, Service.QUEUE, hangs=0)
        )

    def _blobs(self) -> BlobServiceClient:
        from azure.storage.blob import BlobServiceClient

        # A blob that is written again is the same.
        return self._once("blobs", lambda: self._client(BlobServiceClient, Service.BLOB, hangs=1))

    def _client(self, kind: type[T], service: Service, *, hangs: int) -> T:
        return self._connection.client(
            kind, service, transport=self._transport(), retry_policy=self._retries(hangs=hangs)
        )

    def _tables(self) -> TableServiceClient:
        from azure.data.tables import TableServiceClient

        return self._once("tables", lambda: self._table_client(TableServiceClient))

    def _table_client(self, kind: type[T], **names: str) -> T:
        return self._connection.client(
            kind,
            Service.TABLE,
            transport=self._transport(),
            per_call_policies=[self._retries(hangs=0)],
            retry_total=0,  # by the SDK's policy, which can't be replaced
            **names,
        )

    def _transport(self) -> BoundedTransport:
        def make() -> BoundedTransport:
            import requests
            from requests.adapters import HTTPAdapter

            from shared.adapters.azure_storage.bounded_retry import BoundedTransport

            session = requests.Session()
            session.trust_env = False  # no proxies, and the environment is not read per request
            session.mount("https://", HTTPAdapter(CONNECTIONS, CONNECTIONS))
            session.mount("http://", HTTPAdapter(CONNECTIONS, CONNECTIONS))
            return BoundedTransport(
                self.answered,
                session=session,
                session_owner=False,
                # What the session would ask for at each request.
                connection_verify=os.environ.get("REQUESTS_CA_BUNDLE") or True,
            )

        return self._once("transport", make)

    def _retries(self, *, hangs: int) -> BoundedRetry:
        from shared.adapters.azure_storage.bounded_retry import BoundedRetry

        return BoundedRetry(self.clock, hangs=hangs)

    def _once(self, key: str, make: Callable[[], T]) -> T:
        made = self._made.get(key)
        if made is None:
            with self._lock:
                made = self._made.get(key)
                if made is None:
                    made = self._made[key] = make()
        return made


@lru_cache(1)  # Each second of storage comes with many answers.
def time_of(date: str | None) -> datetime | None:
    """Return the time that a header ``Date`` tells, if it does."""
    with suppress(ValueError):
        return datetime.strptime(date or "", _DATE).replace(tzinfo=UTC)
    return None
