"""Builds the events of sources: what happened to a blob, and the deployment's own troubles."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
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
_BLOB_IDS = uuid.UUID("3d6f4f0e-6f0b-4a0c-9a55-7d0c7c7f2b1d")

_TROUBLE_IDS = uuid.UUID("7b1c7d0e-3c56-4d0b-9c0f-5f4f3c1d9a20")


class WrittenBlob(NamedTuple):
    """A blob as storage describes it, and the operation that wrote or deleted it."""

    container: str
    path: str
    url: str  # without its query
    etag: str
    written_at: datetime  # of changes of one blob, the later has a later time
    size: int  # bytes
    content_type: str
    request_id: str = ""  # of the request that wrote it; empty: unknown
    client_request_id: str = ""
    api: str = "PutBlob"
    blob_type: str = "BlockBlob"
    access_tier: str = "Default"
    is_counted: bool = False  # its events are counted as dead letters

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
    return str(uuid.uuid5(_BLOB_IDS, f"{topic.lower()}{subject}"))


class NoticeKind(StrEnum):
    """The types of these events."""

    HOLD_BEGAN = "Pushgrid.HoldBegan"
    HOLD_ENDED = "Pushgrid.HoldEnded"
    DEAD_LETTERED = "Pushgrid.EventsDeadLettered"
    DROPPED = "Pushgrid.EventsDropped"
    REPLAY_ENDED = "Pushgrid.ReplayEnded"
    ANSWERED_LATE = "Pushgrid.EndpointAnsweredLate"


@dataclass(frozen=True, slots=True, kw_only=True)
class TroubleNotice:
    """What happened to a subscription within a minute."""

    kind: NoticeKind
    topic: str
    subscription: str
    minute: datetime
    count: int  # of holds, of events or, of replays, of events sent again
    reasons: Mapping[str, int]  # divide the count
    cause: str  # may have the endpoint's own words
    remedy: str  # what to do
    replays: Sequence[str] = field(default=())  # ids of jobs


def trouble_event(topic: Topic, notice: TroubleNotice) -> Event:
    """
    Return the event of a *notice*, in the topic of the deployment.

    Its id is derived from kind, subscription and minute: a repeat has the same.
    """
    minute = timestamp(notice.minute)
    named = f"{notice.kind} {notice.topic} {notice.subscription}".lower()
    data: dict[str, Any] = {
        "topic": notice.topic,
        "subscription": notice.subscription,
        "minute": minute,
        "count": notice.count,
        "reasons": dict(notice.reasons),
        "cause": notice.cause,
        "remedy": notice.remedy,
    }
    if notice.replays:
        data["replays"] = list(notice.replays)
    members: dict[str, Any] = {
        "topic": topic.arm_id,
        "subject": f"/topics/{notice.topic}/eventSubscriptions/{notice.subscription}",
        "eventType": notice.kind.value,
        "eventTime": minute,
        "id": str(uuid.uuid5(_TROUBLE_IDS, f"{named} {minute}")),
        "data": data,
        "dataVersion": "1",
    }
    return build_event(members, topic)
