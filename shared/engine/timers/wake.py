"""Moves deliveries that are due soon from ``waiting`` to ``retries``."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import timedelta

from shared import telemetry
from shared.clock import Clock
from shared.delivery.messages.packing import due_together
from shared.engine.delivering.requeue import BlockingRequeue
from shared.engine.ports import Queue, Receiver
from shared.engine.timers.receiving import Intake, ReadMessage

RUN_FOR = timedelta(minutes=2)  # a put may be repeated for two more


@dataclass(frozen=True, slots=True, kw_only=True)
class Wake:
    """Moves visible messages of ``waiting`` to ``retries``, merged per subscription."""

    intake: Intake
    receiver: Receiver
    requeue: BlockingRequeue
    clock: Clock

    def run(self) -> None:
        """
        Move all visible messages; delete one only after its replacement is stored.

        Raises:
            StorageUnavailable, Exception: what failed stays, or became a record.
        """
        deadline = self.clock.now() + RUN_FOR
        moved, fault = 0, None
        while taken := self.intake.take(Queue.WAITING, deadline):
            groups: dict[tuple[str, str, str], list[ReadMessage]] = defaultdict(list)
            for each in taken:
                message = each.message
                groups[message.topic, message.subscription, message.generation].append(each)
            failed = self.intake.for_each(Queue.WAITING, groups.values(), self._move, deadline)
            fault = fault or failed
            moved += len(taken)
        if moved:
            telemetry.info("delivery.woken", messages=moved)
        if fault:
            raise fault

    def _move(self, group: list[ReadMessage]) -> None:
        now = self.clock.now()
        waiting = [
            (each.message.due or now, delivery)
            for each in group
            for delivery in each.message.deliveries
        ]
        merged = replace(
            group[0].message, batch_size=max(each.message.batch_size for each in group)
        )
        for due, deliveries in due_together(waiting, now):
            self.requeue.at_due(replace(merged, due=due, deliveries=tuple(deliveries)))
        for each in group:
            self.receiver.delete(Queue.WAITING, each.received)
