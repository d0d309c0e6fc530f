"""Ends the invocation of a slow endpoint before its pushes: a hidden copy replaces the message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from shared import telemetry
from shared.clock import Clock
from shared.delivery.delivery import Delivery
from shared.delivery.messages.message import DeliveryMessage
from shared.engine.delivering.requeue import Queued, Requeue
from shared.errors import StorageUnavailable

# The last push begins within a minute and takes 42 s at most, after a probe that takes as long;
# what follows is stored within two minutes.
COPY_HIDDEN_FOR = timedelta(minutes=8)


@dataclass(slots=True, kw_only=True)
class Detachment:
    """
    Stores a copy of what is undecided, so that the host may delete its message.

    The copy is hidden for longer than the pushes last, and deleted once what follows them is
    stored. If the process dies before that, the copy is received and the pushes are made again:
    nothing is lost. *end_invocation* ends the invocation; the pushes go on.
    """

    message: DeliveryMessage
    requeue: Requeue
    clock: Clock
    end_invocation: Callable[[], None]
    _copies: list[Queued] = field(default_factory=list)

    def begin(self, undecided: Sequence[Delivery]) -> bool:
        """End the invocation; ``False`` if the copy can't be stored: the invocation goes on."""
        if self._copies:
            return True  # It has ended. The copy also has what follows the probe.
        due = self.clock.now() + COPY_HIDDEN_FOR
        try:
            copy = replace(self.message, deliveries=tuple(undecided), due=due, rounds=0)
            self._copies = self.requeue.at_due(copy)
        except StorageUnavailable:
            return False
        self.end_invocation()
        return True

    def delete_copy(self) -> None:
        """Delete the copy: what follows is stored."""
        for copy in self._copies:
            try:
                self.requeue.shrink(copy, [])
            except StorageUnavailable as error:
                telemetry.warning(
                    "delivery.copy_not_deleted",
                    topic=self.message.topic,
                    subscription=self.message.subscription,
                    due=copy.visible_at,
                    detail=str(error),
                )
