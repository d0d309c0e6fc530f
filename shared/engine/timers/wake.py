"""Moves deliveries that are due soon from ``waiting`` to ``retries``."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

from shared import telemetry
from shared.clock import Clock, Deadline
from shared.delivery.delivery import Delivery
from shared.delivery.messages.message import MessagePart
from shared.delivery.messages.packing import due_together
from shared.engine.delivering.requeue import BlockingRequeue
from shared.engine.ports import Queue, Receiver
from shared.engine.timers.receiving import Intake, ReadMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Wake:
    """The wake timer's job: empties ``waiting``, and merges messages of like subscriptions."""

    intake: Intake
    receiver: Receiver
    requeue: BlockingRequeue
    clock: Clock

    def run(self, deadline: Deadline) -> None:
        """Move all visible messages; delete one only after its replacement is stored."""
        moved, fault = 0, None
        while taken := self.intake.take(Queue.WAITING, deadline):
            groups: dict[object, list[ReadMessage]] = defaultdict(list)
            for each in taken:
                groups[_subscriptions(each)].append(each)
            failed = self.intake.for_each(Queue.WAITING, groups.values(), self._move, deadline)
            fault = fault or failed
            moved += len(taken)
        if moved:
            telemetry.info("delivery.woken", messages=moved)
        if fault:
            raise fault

    def _move(self, group: list[ReadMessage]) -> None:
        """Merge messages of the same subscriptions, which stay together."""
        now = self.clock.now()
        waiting = [
            (part.due or now, (replace(part, deliveries=(), due=None), delivery))
            for each in group
            for part in each.parts
            for delivery in part.deliveries
        ]
        # One after another: if one cannot be stored, little of its group is stored twice.
        for due, together in due_together(waiting, now):
            merged: dict[MessagePart, list[Delivery]] = defaultdict(list)
            for part, delivery in together:
                merged[part].append(delivery)
            self.requeue.at_due(
                *[replace(part, due=due, deliveries=tuple(each)) for part, each in merged.items()]
            )
        for each in group:
            self.receiver.delete(Queue.WAITING, each.received)


def _subscriptions(message: ReadMessage) -> tuple[tuple[str, str, str], ...]:
    names = [(part.topic, part.subscription, part.generation) for part in message.parts]
    return tuple(sorted(names))
