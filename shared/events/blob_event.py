"""Builds the events about blobs: ``Microsoft.Storage.BlobCreated`` and ``BlobDeleted``."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from shared.clock import timestamp
from shared.events.event import Event
from shared.events.eventgrid_schema import build_event
from shared.events.literals import loads
from shared.events.topic import DEPLOYMENT, SourceTopic, Topic

CREATED = "Microsoft.Storage.BlobCreated"
DELETED = "Microsoft.Storage.BlobDeleted"
_DELETE = "DeleteBlob"
APIS = ("PutBlob", "PutBlockList", "CopyBlob", _DELETE)
_EPOCH, _TICK = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
_IDS = uuid.UUID("3d6f4f0e-6f0b-4a0c-9a55-7d0c7c7f2b1d")


class WrittenBlob(NamedTuple):
    """
    A blob as storage describes it, and the operation *api* that wrote or deleted it.

    *size* is in bytes, *url* has no query. Of changes of one blob, the later has a later time.
    *request_id* and *client_request_id* are those of the request that wrote it; empty: unknown.
    """

    container: str
    path: str
    url: str
    etag: str
    written_at: datetime
    size: int
    content_type: str
    request_id: str = ""
    client_request_id: str = ""
    api: str = "PutBlob"
    blob_type: str = "BlockBlob"
    access_tier: str = "Default"

    @property
    def subject(self) -> str:
        return f"/blobServices/default/containers/{self.container}/blobs/{self.path}"


def blob_created(topic: Topic, blob: WrittenBlob, new_id: Callable[[], str]) -> Event:
    """
    Return the event that a blob of dead letters was created in the storage account of *topic*.

    Its id is derived from account and path: a repeat has the same.
    """
    return blob_event(topic, blob, _id_of(topic.name, blob.subject), new_id)


def blob_event(topic: Topic, blob: WrittenBlob, event_id: str, new_id: Callable[[], str]) -> Event:
    """
    Return the event of a change in the storage account of *topic*.

    Ids of requests that storage no longer knows are *new_id*.

    Source: "Azure Blob Storage as an Event Grid source" (2025-10).
    """
    is_deleted = blob.api == _DELETE
    etag = {} if is_deleted else {"eTag": blob.etag.strip('"')}
    members: dict[str, Any] = {
        "topic": topic.arm_id,
        "subject": blob.subject,
        "eventType": DELETED if is_deleted else CREATED,
        "eventTime": timestamp(blob.written_at),
        "id": event_id,
        "data": {
            "api": blob.api,
            "clientRequestId": blob.client_request_id or new_id(),
            "requestId": blob.request_id or new_id(),
            **etag,
            "contentType": blob.content_type,
            "contentLength": blob.size,
            "blobType": blob.blob_type,
            "accessTier": blob.access_tier,
            "url": blob.url,
            "sequencer": f"{(blob.written_at - _EPOCH) // _TICK:032X}",
            "storageDiagnostics": {"batchId": new_id()},
        },
        "dataVersion": "",
        "metadataVersion": "1",
    }
    return build_event(members, topic)


def is_notice(topic: str, text: str) -> bool:
    """
    Tell whether an event of a *topic* is one of ``blob_created``, which have such an id, or one of
    the deployment about itself.

    A blob in which all dead letters are such notices is not announced: so a notice that can't be
    delivered causes no other.
    """
    source = SourceTopic.parse(topic)
    if source is None:
        return False
    if source.source == DEPLOYMENT:
        return True
    event = loads(text)
    subject = event.get("subject")
    return isinstance(subject, str) and event.get("id") == _id_of(topic, subject)


def _id_of(topic: str, subject: str) -> str:
    return str(uuid.uuid5(_IDS, f"{topic.lower()}{subject}"))
