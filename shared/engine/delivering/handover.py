"""Hands a slow part over to a hidden copy, so that the host may delete its message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from shared import telemetry
from shared.clock import Clock
from shared.delivery.delivery import Delivery
from shared.delivery.messages.message import DeliveryMessage
from shared.engine.delivering.requeue import Queued, Requeue
from shared.errors import StorageUnavailable

COPY_HIDDEN_FOR = timedelta(minutes=1)  # and again, while pushes go on
RENEWED_BEFORE = timedelta(seconds=30)
AGAIN_AFTER = timedelta(seconds=15)  # a failed put: a slow push leads to three copies at most


@dataclass(slots=True, kw_only=True)
class Handover:
    """
    Keeps a copy of a part's undecided deliveries while their pushes go on without an invocation.

    The copy is hidden for as long, and deleted once what follows is stored. If the process dies
    before that, the copy is received within a minute and the pushes are made again: nothing is
    lost.
    """

    message: DeliveryMessage
    requeue: Requeue
    clock: Clock
    is_done: bool = False
    _failed_at: datetime | None = None
    _copies: list[Queued] = field(default_factory=list)

    def begin(self, undecided: Sequence[Delivery]) -> None:
        """
        Try once to store the copy: then it *is_done*, and the message is not needed.

        What failed may be stored all the same, so it is tried again only after a while.
        """
        now = self.clock.now()
        if self._failed_at and now - self._failed_at < AGAIN_AFTER:
            return
        due = now + COPY_HIDDEN_FOR
        try:
            copy = replace(self.message, deliveries=tuple(undecided), due=due, rounds=0)
            self._copies = self.requeue.at_due(copy, patience=timedelta())
        except StorageUnavailable:
            self._failed_at = now
            return
        self.is_done = True

    def renew(self) -> None:
        """
        Keep the copy hidden, if it would soon be visible.

        If that fails, or it was received meanwhile, its deliveries are pushed again.
        """
        now = self.clock.now()
        if not any(copy.visible_at <= now + RENEWED_BEFORE for copy in self._copies):
            return
        kept: list[Queued] = []
        for copy in self._copies:
            renewed = copy._replace(visible_at=now + COPY_HIDDEN_FOR)
            try:
                hidden = self.requeue.shrink(renewed, copy.message.deliveries)
                kept += [hidden] if hidden else []
            except StorageUnavailable as error:
                self._log("delivery.copy_not_hidden", copy, error)
                kept.append(copy)
        self._copies = kept

    def end(self) -> None:
        """Delete the copy: what follows is stored."""
        for copy in self._copies:
            try:
                self.requeue.shrink(copy, [])
            except StorageUnavailable as error:
                self._log("delivery.copy_not_deleted", copy, error)

    def _log(self, event: str, copy: Queued, error: StorageUnavailable) -> None:
        telemetry.warning(
            event,
            topic=self.message.topic,
            subscription=self.message.subscription,
            due=copy.visible_at,
            detail=str(error),
        )
