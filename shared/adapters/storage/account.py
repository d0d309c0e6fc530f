"""The storage account: its clients, their one pool of connections, and what their errors mean."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from shared.adapters.storage.connection import Connection, Service

if TYPE_CHECKING:
    from azure.core.pipeline.transport import RequestsTransport
    from azure.data.tables import TableClient, TableServiceClient
    from azure.storage.blob import BlobServiceClient, ContainerClient
    from azure.storage.queue import QueueClient, QueueServiceClient

PAYLOADS = "payloads"
POISON = "poison"
CONNECT_SECONDS = 5
READ_SECONDS = 10
CONNECTIONS = 64

T = TypeVar("T")

# At INFO these write several lines a request, and the Functions worker runs the root at INFO.
_TALKATIVE = ("azure.core", "azure.identity", "azure.storage", "azure.data")


class StorageAccount:
    """
    Makes the clients when they are first needed; they may be used from any thread.

    *storage* is ``Settings.storage``. *prefix* stands before the name of every queue, table and
    container of ours, so that tests can share an account; it has lower-case letters and digits.
    """

    def __init__(self, storage: Mapping[str, str], *, prefix: str = "") -> None:
        self._connection = Connection(storage)
        self._prefix = prefix
        self._lock = threading.RLock()
        self._made: dict[str, Any] = {}
        for name in _TALKATIVE:
            logging.getLogger(name).setLevel(logging.WARNING)

    @property
    def account_name(self) -> str:
        return self._connection.account_name

    def queue(self, name: str) -> QueueClient:
        """Return the client of a queue of ours."""
        return self._once(
            f"queue {name}", lambda: self._queues().get_queue_client(self._prefix + name)
        )

    def table(self, name: str) -> TableClient:
        """Return the client of a table of ours."""
        return self._once(
            f"table {name}", lambda: self._tables().get_table_client(self._prefix + name)
        )

    def tables_named(self, beginning: str) -> list[str]:
        """Return the names of our tables that begin with *beginning* and a digit."""
        start = self._prefix + beginning
        digits = f"TableName ge '{start}0' and TableName lt '{start}:'"
        found = self._tables().query_tables(digits)
        return [table.name.removeprefix(self._prefix) for table in found]

    def container(self, name: str) -> ContainerClient:
        """Return the client of a container of ours."""
        return self.foreign_container(self._prefix + name)

    def foreign_container(self, name: str) -> ContainerClient:
        """Return the client of any container of the account."""
        return self._blobs().get_container_client(name)

    def _queues(self) -> QueueServiceClient:
        def make() -> QueueServiceClient:
            from azure.storage.queue import QueueServiceClient

            return self._connection.client(
                QueueServiceClient,
                Service.QUEUE,
                transport=self._transport(),
                retry_policy=self._retries(),
            )

        return self._once("queues", make)

    def _blobs(self) -> BlobServiceClient:
        def make() -> BlobServiceClient:
            from azure.storage.blob import BlobServiceClient

            return self._connection.client(
                BlobServiceClient,
                Service.BLOB,
                transport=self._transport(),
                retry_policy=self._retries(),
            )

        return self._once("blobs", make)

    def _tables(self) -> TableServiceClient:
        def make() -> TableServiceClient:
            from azure.data.tables import TableServiceClient

            return self._connection.client(
                TableServiceClient,
                Service.TABLE,
                transport=self._transport(),
                retry_total=2,
                retry_connect=1,
                retry_read=1,
                retry_backoff_factor=0.5,
                timeout=READ_SECONDS,  # of all tries: one that hung is the last
            )

        return self._once("tables", make)

    def _transport(self) -> RequestsTransport:
        def make() -> RequestsTransport:
            import requests
            from azure.core.pipeline.transport import RequestsTransport
            from requests.adapters import HTTPAdapter

            session = requests.Session()
            session.trust_env = False  # no proxies, and no look at the environment per request
            session.mount("https://", HTTPAdapter(CONNECTIONS, CONNECTIONS))
            session.mount("http://", HTTPAdapter(CONNECTIONS, CONNECTIONS))
            return RequestsTransport(
                session=session,
                session_owner=False,
                # What the session would ask for at each request.
                connection_verify=os.environ.get("REQUESTS_CA_BUNDLE") or True,
                connection_timeout=CONNECT_SECONDS,
                read_timeout=READ_SECONDS,
            )

        return self._once("transport", make)

    def _retries(self) -> object:
        def make() -> object:
            from shared.adapters.storage.retries import ShortRetries

            return ShortRetries()

        return self._once("retries", make)

    def _once(self, key: str, make: Callable[[], T]) -> T:
        made = self._made.get(key)
        if made is None:
            with self._lock:
                made = self._made.get(key)
                if made is None:
                    made = self._made[key] = make()
        return made
