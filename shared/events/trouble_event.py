"""Builds the events by which a deployment reports its own troubles."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from shared.clock import timestamp
from shared.events.event import Event
from shared.events.eventgrid_schema import build_event
from shared.events.topic import Topic

_IDS = uuid.UUID("7b1c7d0e-3c56-4d0b-9c0f-5f4f3c1d9a20")


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
    """
    What happened to a subscription within a *minute*.

    *count* is of holds, of events or, of replays, of events sent again; *reasons* divides it.
    *cause* may have the endpoint's own words, *remedy* is what to do. *replays* are ids of jobs.
    """

    kind: NoticeKind
    topic: str
    subscription: str
    minute: datetime
    count: int
    reasons: Mapping[str, int]
    cause: str
    remedy: str
    replays: Sequence[str] = field(default=())


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
        "id": str(uuid.uuid5(_IDS, f"{named} {minute}")),
        "data": data,
        "dataVersion": "1",
        "metadataVersion": "1",
    }
    return build_event(members, topic)
