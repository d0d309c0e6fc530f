"""Makes the clients of the storage account, with one pool of connections and short retries."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Collection, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar

from shared.adapters.storage.connection import Service, StorageConnection

if TYPE_CHECKING:
    from azure.core.pipeline.transport import (
        HttpRequest,
        HttpResponse,
        HttpTransport,
        RequestsTransport,
    )
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

    *storage* is a connection such as ``Settings.storage``, with the addresses of *services* at
    least. *prefix* precedes all names of queues, tables and
    containers, so that tests can share an account; it has lower-case letters and digits.
    """

    def __init__(
        self,
        storage: Mapping[str, str],
        *,
        prefix: str = "",
        services: Collection[Service] = tuple(Service),
    ) -> None:
        self._connection = StorageConnection(storage, services)
        self._prefix = prefix
        self._lock = threading.RLock()
        self._made: dict[str, Any] = {}
        for name in _TALKATIVE:
            logging.getLogger(name).setLevel(logging.WARNING)

    @property
    def account_name(self) -> str:
        return self._connection.account_name

    def queue(self, name: str) -> QueueClient:
        """Return the client of the app's queue *name*."""
        return self._once(
            f"queue {name}", lambda: self._queues().get_queue_client(self._prefix + name)
        )

    def send_to_queues(
        self, request: HttpRequest, transport: HttpTransport[HttpRequest, HttpResponse]
    ) -> HttpResponse:
        """Send *request* with *transport*, and the authorization and retries of the clients."""
        from azure.core.pipeline import Pipeline

        def make() -> Pipeline[HttpRequest, HttpResponse]:
            # A pipeline chains its policies, so none can be in two.
            authorization = copy(self._queues()._credential_policy)  # noqa: SLF001 - no other name
            return Pipeline(transport, [_short_retries(), authorization])

        pipeline = self._once("message pipeline", make)
        return pipeline.run(request, read_timeout=READ_SECONDS).http_response

    def table(self, name: str) -> TableClient:
        """Return the client of the app's table *name*."""
        return self._once(
            f"table {name}", lambda: self._tables().get_table_client(self._prefix + name)
        )

    def tables_named(self, beginning: str) -> list[str]:
        """Return the names of the app's tables that begin with *beginning* and a digit."""
        start = self._prefix + beginning
        digits = f"TableName ge '{start}0' and TableName lt '{start}:'"
        found = self._tables().query_tables(digits)
        return [table.name.removeprefix(self._prefix) for table in found]

    def container(self, name: str) -> ContainerClient:
        """Return the client of the app's container *name*."""
        return self.foreign_container(self._prefix + name)

    def foreign_container(self, name: str) -> ContainerClient:
        """Return the client of any container of the account."""
        return self._blobs().get_container_client(name)

    def _queues(self) -> QueueServiceClient:
        from azure.storage.queue import QueueServiceClient

        return self._once("queues", lambda: self._client(QueueServiceClient, Service.QUEUE))

    def _blobs(self) -> BlobServiceClient:
        from azure.storage.blob import BlobServiceClient

        return self._once("blobs", lambda: self._client(BlobServiceClient, Service.BLOB))

    def _client(self, kind: type[T], service: Service) -> T:
        return self._connection.client(
            kind, service, transport=self._transport(), retry_policy=_short_retries()
        )

    def _tables(self) -> TableServiceClient:
        from azure.data.tables import TableServiceClient

        return self._once(
            "tables",
            lambda: self._connection.client(
                TableServiceClient,
                Service.TABLE,
                transport=self._transport(),
                retry_total=2,
                retry_connect=1,
                retry_read=1,
                retry_backoff_factor=0.5,
                timeout=READ_SECONDS,  # of all tries: one that hung is the last
            ),
        )

    def _transport(self) -> RequestsTransport:
        def make() -> RequestsTransport:
            import requests
            from azure.core.pipeline.transport import RequestsTransport
            from requests.adapters import HTTPAdapter

            session = requests.Session()
            session.trust_env = False  # no proxies, and the environment is not read per request
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

    def _once(self, key: str, make: Callable[[], T]) -> T:
        made = self._made.get(key)
        if made is None:
            with self._lock:
                made = self._made.get(key)
                if made is None:
                    made = self._made[key] = make()
        return made


def _short_retries() -> Any:
    """
    Return how often queues and blobs are tried, briefly, since publishers wait for the answer.

    At most three tries about a second apart, two where connecting fails: 16 seconds at the worst. A
    try that ended in a read timeout is the last: a storage that hangs once has used up the time of
    all three.
    """
    from azure.core.exceptions import ServiceResponseTimeoutError
    from azure.storage.queue import ExponentialRetry

    class ShortRetries(ExponentialRetry):
        def increment(
            self, settings: Any, request: Any, response: Any = None, error: Any = None
        ) -> bool:
            if isinstance(error, ServiceResponseTimeoutError):
                return False
            is_tried_again = super().increment(settings, request, response, error)
            if is_tried_again and response is not None:
                # The SDK forgets the answer to a download, and with it the open connection.
                response.internal_response.close()
            return is_tried_again

    return ShortRetries(
        initial_backoff=1, increment_base=1, random_jitter_range=1, retry_total=2, retry_connect=1
    )
