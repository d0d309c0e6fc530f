"""Builds the event that tells of a blob of dead letters: ``Microsoft.Storage.BlobCreated``."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from shared.clock import timestamp
from shared.events.event import Event
from shared.events.eventgrid_schema import build_event
from shared.events.literals import loads
from shared.events.topic import AccountTopic, Topic

CREATED = "Microsoft.Storage.BlobCreated"
_IDS = uuid.UUID("3d6f4f0e-6f0b-4a0c-9a55-7d0c7c7f2b1d")


class WrittenBlob(NamedTuple):
    """
    A blob as storage describes it; *size* is in bytes, *url* has no query.

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

    @property
    def subject(self) -> str:
        return f"/blobServices/default/containers/{self.container}/blobs/{self.path}"


def blob_created(topic: Topic, blob: WrittenBlob, new_id: Callable[[], str]) -> Event:
    """
    Return the event that a blob was created in the storage account of *topic*.

    Its id is derived from account and path: a repeat has the same. What storage no longer tells is
    *new_id*.

    Source: "Azure Blob Storage as an Event Grid source" (2025-10).
    """
    members: dict[str, Any] = {
        "topic": topic.arm_id,
        "subject": blob.subject,
        "eventType": CREATED,
        "eventTime": timestamp(blob.written_at),
        "id": _id_of(topic.name, blob.subject),
        "data": {
            "api": "PutBlob",
            "clientRequestId": blob.client_request_id or new_id(),
            "requestId": blob.request_id or new_id(),
            "eTag": blob.etag.strip('"'),
            "contentType": blob.content_type,
            "contentLength": blob.size,
            "blobType": "BlockBlob",
            "accessTier": "Default",
            "url": blob.url,
            "sequencer": f"{int(blob.written_at.timestamp() * 1_000_000):032X}",
            "storageDiagnostics": {"batchId": new_id()},
        },
        "dataVersion": "",
        "metadataVersion": "1",
    }
    return build_event(members, topic)


def publish_id(events: list[Event]) -> str:
    """Return the id of the publication of *events*; a repeat of the same ones has the same."""
    return uuid.uuid5(_IDS, " ".join(str(each.members["id"]) for each in events)).hex


def is_notice(topic: str, text: str) -> bool:
    """
    Tell whether an event of a *topic* is one of ``blob_created``: only those have such an id.

    A blob in which all dead letters are such notices is not told of: so a notice that can't be
    delivered causes no other.
    """
    if not AccountTopic.parse(topic):
        return False
    event = loads(text)
    subject = event.get("subject")
    return isinstance(subject, str) and event.get("id") == _id_of(topic, subject)


def _id_of(topic: str, subject: str) -> str:
    return str(uuid.uuid5(_IDS, f"{topic.lower()}{subject}"))
