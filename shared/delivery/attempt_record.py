"""What is kept of an attempt, so that anybody can see later why an event was not delivered."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from shared.delivery.outcome import DeliveryOutcome
from shared.delivery.policy import EndReason, EndState

KEPT_FOR = timedelta(days=7)  # whole days after the one of publishing


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """
    One attempt, or, without an *outcome*, an end that no attempt has decided: it was noticed when
    the event was due, or is a success that came late.

    *event_id* is the publisher's, ``None`` if the event is gone. *number* counts attempts, this one
    included; *at* is when it began, or when the end was noticed. *next_at* is when the next one
    is due. *state* and *reason* say how it ended, if it did, and *blob_due_at* when its dead letter
    may be written, if it gets one. *why* names the rule behind either.
    """

    topic: str
    subscription: str
    system_id: str
    event_id: str | None
    published_at: datetime
    number: int
    at: datetime
    outcome: DeliveryOutcome | None
    next_at: datetime | None = None
    state: EndState | None = None
    reason: EndReason | None = None
    blob_due_at: datetime | None = None
    why: str = ""
