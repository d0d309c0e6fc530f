"""
Keeps a timer's status and lease in blobs.

Source: azure-webjobs-sdk-extensions Timers.Storage/StorageScheduleMonitor.cs; azure-webjobs-sdk
Microsoft.Azure.WebJobs.Host/Singleton (2024-10).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from azure.core.exceptions import (
    AzureError,
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
    ServiceRequestError,
)
from azure.storage.blob import BlobClient, BlobServiceClient

from devhost.host_json import LockOptions
from devhost.storage.account import AccountConnection
from devhost.storage.errors import StorageBusyError, StorageRefusedError

CONTAINER = "azure-webjobs-hosts"

_NEVER = datetime(1, 1, 1)  # noqa: DTZ001 - as the real host stores it
_TAKEN = 409
# Storage rejects the request or its sender: a retry will not succeed.
_REFUSED = (400, 401, 403)
_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class TimerStatus(NamedTuple):
    """A timer's state, kept between two runs of the host; None: never."""

    last: datetime | None  # its last run on this schedule
    next: datetime | None
    last_updated: datetime


def status_json(status: TimerStatus) -> dict[str, str]:
    """Return *status* as the real host stores it and passes it to the function."""
    last, due, updated = ((moment or _NEVER).isoformat() for moment in status)
    return {"Last": last, "Next": due, "LastUpdated": updated}


def _read_status(text: str | bytes) -> TimerStatus | None:
    """Return a stored status, or None if it is malformed."""
    try:
        document = json.loads(text)
        last, due, updated = map(
            _moment, (document[name] for name in ("Last", "Next", "LastUpdated"))
        )
    except (ValueError, KeyError, TypeError):
        return None
    return TimerStatus(last, due, updated) if updated else None


def _moment(text: str) -> datetime | None:
    moment = datetime.fromisoformat(text)
    return None if moment.year == _NEVER.year else moment.astimezone(UTC)


class HostBlobs:
    """The container in which hosts keep their own blobs."""

    def __init__(self, account: AccountConnection, host_id: str, threads: Executor) -> None:
        self._service: Any = BlobServiceClient(
            account.blob_url,
            credential=account.sdk_credential(),
            retry_total=0,
            connection_timeout=5,
            # Its dozen lines for each request would appear as the app's own.
            http_logging_level=logging.DEBUG,
        )
        self._where = urlsplit(account.blob_url).netloc
        self._hint = account.hint
        self._host_id = host_id
        self._threads = threads

    def blob(self, folder: str, name: str) -> BlobClient:
        """Return a client of one of this host's blobs."""
        path = f"{folder}/{self._host_id}/{name}"
        client: BlobClient = self._service.get_blob_client(CONTAINER, path)
        return client

    async def run(self, step: Callable[[], _T]) -> _T:
        """
        Run a blocking *step* on a thread; the container is created if it is missing.

        Raises:
            StorageBusyError: storage is unreachable or fails.
            StorageRefusedError: storage rejected the request.
        """
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._try, step)

    def _try(self, step: Callable[[], _T]) -> _T:
        try:
            try:
                return step()
            except ResourceNotFoundError:
                with contextlib.suppress(ResourceExistsError):
                    self._service.create_container(CONTAINER)
                return step()
        except ServiceRequestError as fault:
            # The exception's own text names Python objects.
            raise StorageBusyError(f"{self._where}: no connection{self._hint}") from fault
        except HttpResponseError as fault:
            text = f"{self._where}: {fault.status_code} {getattr(fault, 'error_code', '')}".rstrip()
            refused = fault.status_code in _REFUSED
            raise (StorageRefusedError if refused else StorageBusyError)(text) from fault
        except AzureError as fault:
            raise StorageBusyError(
                f"{self._where}: the response is not a blob service's"
            ) from fault


class BlobStatus:
    """A timer's status blob, as the real host keeps it."""

    def __init__(self, blobs: HostBlobs, function: str) -> None:
        self._blobs = blobs
        self._blob = blobs.blob("timers", f"Host.Functions.{function}/status")

    async def read(self) -> TimerStatus | None:
        """Return the status; None if it is missing or malformed."""
        return await self._blobs.run(self._read)

    async def write(self, status: TimerStatus) -> None:
        """Store *status*."""
        text = json.dumps(status_json(status))
        await self._blobs.run(lambda: self._blob.upload_blob(text, overwrite=True))

    def _read(self) -> TimerStatus | None:
        try:
            return _read_status(self._blob.download_blob().readall())
        except ResourceNotFoundError:
            return None


class BlobLock:
    """A blob lease, renewed at half of its period until it is released."""

    def __init__(self, blobs: HostBlobs, function: str, options: LockOptions) -> None:
        self._blobs = blobs
        self._blob = blobs.blob("locks", f"Host.Functions.{function}.Listener")
        self._period = options.period.total_seconds()
        #: How long to wait before the next try.
        self.recovery_interval: timedelta = options.recovery_polling_interval
        self._lease: Any = None
        self._renewal: asyncio.Task[None] | None = None

    async def acquire(self, lost: Callable[[], None]) -> bool:
        """Try to take the lease; *lost* is called if it expires."""
        asked_at = time.monotonic()
        self._lease = await self._blobs.run(self._acquire)
        if self._lease is None:
            return False
        self._renewal = asyncio.create_task(self._renew(asked_at, lost))
        return True

    async def release(self) -> None:
        """Release the lease, so that another host need not wait until it expires."""
        if self._renewal:
            self._renewal.cancel()
        lease, self._lease = self._lease, None
        if lease is not None:
            with contextlib.suppress(StorageBusyError, StorageRefusedError):
                await self._blobs.run(lease.release)

    def _acquire(self) -> object | None:
        try:
            try:
                return self._take()
            except ResourceNotFoundError:
                with contextlib.suppress(ResourceExistsError):
                    self._blob.upload_blob(b"")
                return self._take()
        except HttpResponseError as fault:
            if fault.status_code == _TAKEN:
                return None
            raise

    def _take(self) -> object:
        return self._blob.acquire_lease(lease_duration=int(self._period))

    async def _renew(self, renewed_at: float, lost: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(self._period / 2)
            tried_at = time.monotonic()
            if await self._renew_once():
                renewed_at = tried_at
            elif time.monotonic() - renewed_at >= self._period:
                # It has expired, and another host may hold it by now.
                self._lease = None
                lost()
                return

    async def _renew_once(self) -> bool:
        try:
            await self._blobs.run(self._lease.renew)
        except (StorageBusyError, StorageRefusedError) as fault:
            # A storage that lost this lease (a new Azurite) has lost the others' as well.
            _log.debug("a timer's lease was not renewed: %s", fault)
            with contextlib.suppress(StorageBusyError, StorageRefusedError):
                if lease := await self._blobs.run(self._acquire):
                    self._lease = lease
                    return True
            return False
        return True
