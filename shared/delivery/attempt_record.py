"""Defines the record of an attempt, from which a timeline explains what became of an event."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from shared.clip import LONGEST, clip
from shared.delivery.outcome import DeliveryOutcome
from shared.delivery.policy import EndReason, EndState

MOST_EVENT = 2048  # characters
KEPT_FOR = timedelta(days=7)  # whole days after the one of publishing


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """
    An attempt, or an end that no attempt has decided: found when the event was due, or a late
    success.
    """

    topic: str
    subscription: str
    system_id: str
    event_id: str | None  # the publisher's; ``None``: the event is gone
    published_at: datetime
    number: int  # of attempts, this one included
    at: datetime  # when it began, or when the end was found
    outcome: DeliveryOutcome | None  # of an attempt
    next_at: datetime | None = None
    state: EndState | None = None  # if the delivery has ended
    reason: EndReason | None = None
    blob_due_at: datetime | None = None  # when its dead letter may be written, if it gets one
    why: str = ""  # the rule that decided
    trace_id: str | None = None
    replay_of: str | None = None  # the job that has sent the event again, at `published_at`
    event_type: str | None = None
    subject: str | None = None
    event: str | None = None  # the beginning of its JSON, if every attempt is recorded

    @property
    def is_delivered(self) -> bool:
        return self.state is EndState.DELIVERED

    def unconfirmed(self, next_at: datetime) -> AttemptRecord:
        """Return the record of an attempt whose end does not count: it is judged again then."""
        why = "the end is not confirmed: the subscription has changed"
        return replace(self, next_at=next_at, state=None, reason=None, blob_due_at=None, why=why)

    @property
    def clipped(self) -> AttemptRecord:
        """The record as it is stored: a hundred stay far below the 4 MiB of a transaction."""
        detail = self.outcome.detail if self.outcome else ""
        texts = self.event_id or "", detail, self.why
        if max(map(len, texts)) <= LONGEST and len(self.event or "") <= MOST_EVENT:
            return self
        return replace(
            self,
            event_id=self.event_id and clip(self.event_id),
            outcome=self.outcome and replace(self.outcome, detail=clip(detail)),
            why=clip(self.why),
            event=self.event and clip(self.event, MOST_EVENT),
        )
