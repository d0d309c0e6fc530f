"""Defines the record of an attempt, from which a timeline explains what became of an event."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from shared.clip import clip
from shared.delivery.outcome import DeliveryOutcome
from shared.delivery.policy import EndReason, EndState

MOST_EVENT = 2048  # characters
KEPT_FOR = timedelta(days=7)  # whole days after the one of publishing


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """
    One attempt or, without an *outcome*, an end that no attempt has decided: it was found when the
    event was due, or is a late success.

    *event_id*, *event_type* and *subject* are the publisher's, ``None`` if the event is gone.
    *event* is the beginning of its JSON, if every attempt is recorded. *number* counts attempts,
    this one included; *at* is when it began, or when the end was found. *next_at* is when the next
    one is due. *state* and *reason* say how the delivery ended, if it did, and *blob_due_at* when
    its dead letter may be written, if it gets one. *why* names the rule that decided. *trace_id* is
    that of the event's trace, if it has one. *replay_of* is the job that has sent the event again,
    at *published_at*.
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
    trace_id: str | None = None
    replay_of: str | None = None
    event_type: str | None = None
    subject: str | None = None
    event: str | None = None

    @property
    def is_delivered(self) -> bool:
        """Whether the endpoint has accepted the event by this."""
        return self.state is EndState.DELIVERED

    @property
    def clipped(self) -> AttemptRecord:
        """The record as it is stored: a hundred stay far below the 4 MiB of a transaction."""
        return replace(
            self,
            event_id=self.event_id and clip(self.event_id),
            outcome=self.outcome and replace(self.outcome, detail=clip(self.outcome.detail)),
            why=clip(self.why),
            event=self.event and clip(self.event, MOST_EVENT),
        )
