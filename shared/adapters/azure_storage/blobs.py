"""Stores blobs: events that don't fit into messages, and dead letters."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING

from azure.core.exceptions import HttpResponseError

from shared.adapters.azure_storage.clients import PAYLOADS, POISON, StorageClients
from shared.adapters.azure_storage.errors import (
    create_if_missing,
    has_code,
    none_if_code,
    storage_errors,
)
from shared.clock import Deadline
from shared.deadletter.blob_summary import BlobSummary
from shared.deadletter.reader import UnreadableBlob
from shared.engine.caching.cache import Cache
from shared.engine.ports import KeyedCounts, Listing, NoContainer, StoredBlob, Threads
from shared.errors import FirstFault, StorageUnavailable
from shared.events.notices import WrittenBlob
from shared.settings import NAMES
from shared.subscriptions.subscription import DeadLetterDestination

if TYPE_CHECKING:
    from azure.storage.blob import BlobClient, BlobProperties, ContainerClient

REMEMBERED_BYTES = 16 * 1024 * 1024
_BATCH = 256  # as many as one batch may delete
_LISTED = 500  # blobs an answer; each may have 8 KiB of metadata
_DELETED = 202
_NOT_FOUND = 404
_REFUSED = (409, 412)  # by the blob: it is archived, or encrypted with a key of its own
_JSON = "application/json"
_HOUR = "%Y%m%d%H"
_HOUR_LENGTH = 10
# No such container: also where the name is illegal, or the container is being deleted.
_NO_CONTAINER = (
    "ContainerNotFound",
    "ContainerBeingDeleted",
    "InvalidResourceName",
    "OutOfRangeInput",
)


class StoragePayloads:
    """
    PayloadStore on blobs, in the clear: compressing costs more than the bytes of four days.

    A name begins with the hour in which the payload expires, so that a listing has the oldest
    first. Many messages share a blob, and several read it at once: what was read last is kept.
    """

    def __init__(
        self, account: StorageClients, threads: Threads, *, remembered_bytes: int = REMEMBERED_BYTES
    ) -> None:
        self._account = account
        self._kept = Cache[Sequence[str] | None](
            threads,
            lambda lines: inf if lines else 0,
            most=remembered_bytes,
            size=_size,
        )

    def write(self, publish_id: str, expires: datetime, texts: Sequence[str]) -> str:
        if not texts or any("\n" in text for text in texts):
            raise ValueError("A payload has at least one text, and each is one line.")
        name = f"{expires.astimezone(UTC):{_HOUR}}/{publish_id}-{uuid.uuid4().hex[:12]}"
        body = "\n".join(texts).encode()
        client = self._account.container(PAYLOADS)
        with storage_errors():
            # A blob of that name can only be an earlier try whose answer was lost.
            create_if_missing(
                lambda: client.upload_blob(name, body, overwrite=True),
                client.create_container,
                "ContainerNotFound",
            )
        return name

    def read(self, name: str) -> Sequence[str] | None:
        return self._kept.get(name, lambda: self._download(name))

    def _download(self, name: str) -> Sequence[str] | None:
        client = self._account.container(PAYLOADS)
        with storage_errors():
            body = none_if_code(
                lambda: client.download_blob(name).readall(), "BlobNotFound", *_NO_CONTAINER
            )
        return None if body is None else tuple(body.decode().split("\n"))

    def delete_expired(self, now: datetime, deadline: Deadline) -> int:
        this_hour = f"{now.astimezone(UTC):{_HOUR}}"
        client = self._account.container(PAYLOADS)
        pages = client.list_blob_names(results_per_page=_BATCH).by_page()
        first, deleted = FirstFault(), 0
        while not deadline.has_passed:
            with storage_errors():
                names = none_if_code(lambda: list(next(pages, ())), *_NO_CONTAINER)
            ours = [name for name in names or () if name[:_HOUR_LENGTH].isdigit()]
            expired = [name for name in ours if name[:_HOUR_LENGTH] < this_hour]
            with first, storage_errors():
                deleted += _delete(client, expired)
            if not names or len(expired) < len(ours):
                break
        first.raise_it()
        return deleted


def _size(lines: Sequence[str] | None) -> int:
    return 1 + sum(map(len, lines or ()))


def _delete(client: ContainerClient, names: Sequence[str]) -> int:
    """Delete all *names* with one request; return how many there were."""
    if not names:
        return 0
    answers = client.delete_blobs(*names, raise_on_any_failure=False)
    statuses = [answer.status_code for answer in answers]
    if not set(statuses) <= {_DELETED, _NOT_FOUND}:
        raise StorageUnavailable
    return statuses.count(_DELETED)


class StorageDeadLetters:
    """
    DeadLetterStore and DeadLetterReader on blobs of the app's own *account* and of *others*.

    Nothing is overwritten. Without an own account there are no poison records.
    """

    def __init__(
        self,
        account: StorageClients | None,
        others: Mapping[str, StorageClients] = MappingProxyType({}),
    ) -> None:
        self._account = account
        self._others = others

    def write(
        self,
        destination: DeadLetterDestination,
        path: str,
        body: bytes,
        summary: BlobSummary | None = None,
        counts: KeyedCounts | None = None,
    ) -> WrittenBlob | None:
        del counts  # There is no transaction.
        client = self._container(destination)
        metadata = summary.to_metadata() if summary else None
        with storage_errors():
            return none_if_code(lambda: _write_once(client, path, body, metadata), *_NO_CONTAINER)

    def find(self, destination: DeadLetterDestination, path: str) -> WrittenBlob | None:
        client = self._container(destination)
        blob = client.get_blob_client(path)
        with storage_errors():
            found = none_if_code(blob.get_blob_properties, "BlobNotFound", *_NO_CONTAINER)
        return None if found is None else _described(blob, found)

    def list(self, destination: DeadLetterDestination, folder: str) -> Listing:
        client = self._container(destination)
        with storage_errors():
            found = none_if_code(lambda: _listing(client, folder), *_NO_CONTAINER)
        if found is None:
            raise NoContainer(destination)
        return found

    def read(self, destination: DeadLetterDestination, path: str, most: int) -> bytes | None:
        client = self._container(destination)
        with storage_errors():
            try:
                return _read_plain(client, path, most)
            except HttpResponseError as error:
                if has_code(error, "BlobNotFound", *_NO_CONTAINER):
                    return None
                if error.status_code in _REFUSED:
                    code = getattr(error, "error_code", None)
                    why = f"Storage refuses to read it: {getattr(code, 'value', code)}."
                    raise UnreadableBlob(why) from None
                raise

    def _container(self, destination: DeadLetterDestination) -> ContainerClient:
        name, own = destination.account, self._account
        is_own = own is not None and name in ("", own.account_name)
        account = own if is_own else self._others.get(name)
        if account is None:
            by_name = f" The server's own is what {NAMES['own_account']} names." * (own is None)
            raise StorageUnavailable(
                f"{NAMES['deadletter_accounts']} does not name the storage account '{name}', or"
                f" its connection string is not resolved.{by_name}"
            )
        return account.foreign_container(destination.container)

    def write_poison(self, path: str, body: bytes) -> None:
        assert self._account  # noqa: S101 - who has none does not call it
        client = self._account.container(POISON)
        with storage_errors():
            create_if_missing(
                lambda: _write_once(client, path, body),
                client.create_container,
                "ContainerNotFound",
            )


def _listing(client: ContainerClient, folder: str) -> Listing:
    from azure.storage.blob import BlobProperties

    listing = Listing([], [])
    for each in client.walk_blobs(folder, include=["metadata"], results_per_page=_LISTED):
        if isinstance(each, BlobProperties):
            summary = BlobSummary.from_metadata(each.metadata or {})
            listing.blobs.append(StoredBlob(each.name, each.last_modified, each.size, summary))
        else:
            listing.folders.append(each.name.removeprefix(folder).rstrip("/"))
    return listing


def _read_plain(client: ContainerClient, path: str, most: int) -> bytes:
    """
    Return the first bytes of a blob.

    Raises:
        UnreadableBlob: it is compressed; it could become far larger than *most*.
    """
    stream = client.download_blob(path, decompress=False)
    if encoding := stream.properties.content_settings.content_encoding:
        raise UnreadableBlob(f"It has the content encoding '{encoding}'.")
    return stream.read(most)


def _write_once(
    client: ContainerClient, path: str, body: bytes, metadata: dict[str, str] | None = None
) -> WrittenBlob:
    from azure.storage.blob import ContentSettings

    settings = ContentSettings(_JSON)
    blob = client.get_blob_client(path)
    try:
        done = blob.upload_blob(body, content_settings=settings, metadata=metadata)
    except HttpResponseError as error:
        # There is a blob already: ours, if the answer to an earlier try was lost.
        if not has_code(error, "BlobAlreadyExists"):
            raise
        stream = blob.download_blob()
        if stream.readall() != body:
            raise
        return _described(blob, stream.properties)
    return WrittenBlob(
        container=client.container_name,
        path=path,
        url=_url(blob),
        etag=done["etag"],
        written_at=done["last_modified"],
        size=len(body),
        content_type=_JSON,
        request_id=done.get("request_id") or "",
        client_request_id=done.get("client_request_id") or "",
    )


def _described(blob: BlobClient, found: BlobProperties) -> WrittenBlob:
    return WrittenBlob(
        container=blob.container_name,
        path=blob.blob_name,
        url=_url(blob),
        etag=found.etag,
        written_at=found.last_modified,
        size=found.size,
        content_type=found.content_settings.content_type or "",
    )


def _url(blob: BlobClient) -> str:
    """Return a blob's URL without its query, which may be a signature."""
    return str(blob.url).partition("?")[0]
