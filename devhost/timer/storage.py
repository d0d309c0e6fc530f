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
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from azure.core.exceptions import (
    AzureError,
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
    ServiceRequestError,
    ServiceResponseError,
)
from azure.storage.blob import BlobServiceClient

from devhost.host_json import LockOptions
from devhost.storage.account import AccountConnection
from devhost.storage.errors import (
    StorageBusyError,
    StorageRefusedError,
    StorageUnreachableError,
)

CONTAINER = "azure-webjobs-hosts"

_NEVER = datetime(1, 1, 1)  # noqa: DTZ001 - as the real host stores it
_TAKEN = 409
# Storage rejects the request or its sender: a retry will not succeed.
_REFUSED = (400, 401, 403)
_T = TypeVar("_T")


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


class TimerStorage:
    """
    The blobs of one timer: its status, and a lease that one of the hosts with this id holds.

    A taken lease is renewed at half of its period until it is released. What calls storage may
    raise StorageBusyError or StorageRefusedError.
    """

    def __init__(
        self,
        account: AccountConnection,
        host_id: str,
        function: str,
        options: LockOptions,
        threads: Executor,
    ) -> None:
        service = BlobServiceClient(
            account.blob_url,
            credential=account.sdk_credential(),
            retry_total=0,
            connection_timeout=5,
            # Its dozen lines for each request would appear as the app's own.
            http_logging_level=logging.DEBUG,
        )
        self._container: Any = service.get_container_client(CONTAINER)
        function = f"Host.Functions.{function}"
        self._status = self._container.get_blob_client(f"timers/{host_id}/{function}/status")
        self._leased = self._container.get_blob_client(f"locks/{host_id}/{function}.Listener")
        self._where = urlsplit(account.blob_url).netloc
        self._hint = account.hint
        self._period = options.period.total_seconds()
        self._threads = threads
        self._lease: Any = None
        self._renewal: asyncio.Task[None] | None = None

    async def read(self) -> TimerStatus | None:
        """Return the status; None if it is missing or malformed."""
        return await self._run(self._read)

    async def write(self, status: TimerStatus) -> None:
        """Store *status*."""
        text = json.dumps(status_json(status))
        await self._run(lambda: self._status.upload_blob(text, overwrite=True))

    async def acquire(self, lost: Callable[[], None]) -> bool:
        """Try to take the lease; False: another host has it. *lost* is called if it expires."""
        asked_at = time.monotonic()
        self._lease = await self._run(self._acquire)
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
                await self._run(lease.release)

    async def _run(self, step: Callable[[], _T]) -> _T:
        """Run a blocking *step* on a thread; the container is created if it is missing."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._try, step)

    def _try(self, step: Callable[[], _T]) -> _T:
        try:
            try:
                return step()
            except ResourceNotFoundError:
                with contextlib.suppress(ResourceExistsError):
                    self._container.create_container()
                return step()
        except (ServiceRequestError, ServiceResponseError) as fault:
            # The exception's own text names Python objects.
            raise StorageUnreachableError(f"{self._where}: no connection{self._hint}") from fault
        except HttpResponseError as fault:
            text = f"{self._where}: {fault.status_code} {getattr(fault, 'error_code', '')}".rstrip()
            refused = fault.status_code in _REFUSED
            raise (StorageRefusedError if refused else StorageBusyError)(text) from fault
        except AzureError as fault:
            raise StorageBusyError(
                f"{self._where}: the response is not a blob service's"
            ) from fault

    def _read(self) -> TimerStatus | None:
        try:
            return _read_status(self._status.download_blob().readall())
        except ResourceNotFoundError:
            return None

    def _acquire(self) -> object | None:
        try:
            if not self._leased.exists():
                with contextlib.suppress(ResourceExistsError):
                    self._leased.upload_blob(b"")
            return self._leased.acquire_lease(lease_duration=int(self._period))
        except HttpResponseError as fault:
            if fault.status_code == _TAKEN:
                return None
            raise

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
        with contextlib.suppress(StorageBusyError, StorageRefusedError):
            await self._run(self._lease.renew)
            return True
        # A storage that lost this lease (a new Azurite) has lost the others' as well.
        with contextlib.suppress(StorageBusyError, StorageRefusedError):
            if lease := await self._run(self._acquire):
                self._lease = lease
                return True
        return False
