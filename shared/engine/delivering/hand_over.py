"""Ends an invocation before its pushes have ended, so that slow endpoints hold none of the host."""

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
STANDS_IN_FOR = timedelta(minutes=8)


@dataclass(slots=True, kw_only=True)
class HandOver:
    """
    A copy of what is undecided stands in for the host's message, which may then be deleted.

    It is hidden for longer than the pushes last, and deleted once what follows them is stored. If
    the process dies before that, it is received: the pushes are made again, nothing is lost.
    *release* ends the invocation; the pushes go on.
    """

    message: DeliveryMessage
    requeue: Requeue
    clock: Clock
    release: Callable[[], None]
    _copies: list[Queued] = field(default_factory=list)

    def begin(self, undecided: Sequence[Delivery]) -> bool:
        """End the invocation; ``False`` if the copy can't be stored: then it goes on."""
        if self._copies:
            return True  # It has ended already; the copy has what came after a probe, too.
        due = self.clock.now() + STANDS_IN_FOR
        try:
            copy = replace(self.message, deliveries=tuple(undecided), due=due, rounds=0)
            self._copies = self.requeue.at_due(copy)
        except StorageUnavailable:
            return False
        self.release()
        return True

    def settle(self) -> None:
        """Delete the copy: everything is decided, and stored."""
        for copy in self._copies:
            try:
                self.requeue.shrink(copy, [])
            except StorageUnavailable as error:
                telemetry.warning(
                    "delivery.copy_left",
                    topic=self.message.topic,
                    subscription=self.message.subscription,
                    due=copy.visible_at,
                    detail=str(error),
                )
