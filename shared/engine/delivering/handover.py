"""Hands a slow part over to a hidden copy, so that the host may delete its message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from shared import telemetry
from shared.clock import Clock
from shared.delivery.delivery import Delivery
from shared.delivery.messages.message import DeliveryMessage
from shared.engine.delivering.requeue import Queued, Requeue
from shared.errors import StorageUnavailable

COPY_HIDDEN_FOR = timedelta(minutes=1)  # and again, while pushes go on
RENEWED_BEFORE = timedelta(seconds=30)


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
    _copies: list[Queued] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        """Whether there is a copy."""
        return bool(self._copies)

    def begin(self, undecided: Sequence[Delivery]) -> bool:
        """Try once to store the copy; ``False`` if it isn't: the message is still needed."""
        due = self.clock.now() + COPY_HIDDEN_FOR
        try:
            copy = replace(self.message, deliveries=tuple(undecided), due=due, rounds=0)
            self._copies = self.requeue.at_due(copy, patience=timedelta())
        except StorageUnavailable:
            return False
        return True

    def renew(self) -> None:
        """Keep the copy hidden, if it would soon be visible; if that fails, it is a duplicate."""
        soon = self.clock.now() + RENEWED_BEFORE
        for number, copy in enumerate(self._copies):
            if copy.visible_at <= soon:
                until = self.clock.now() + COPY_HIDDEN_FOR
                try:
                    hidden = self.requeue.shrink(
                        copy._replace(visible_at=until), copy.message.deliveries
                    )
                except StorageUnavailable as error:
                    self._log("delivery.copy_not_hidden", copy, error)
                else:
                    self._copies[number] = hidden or copy

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
