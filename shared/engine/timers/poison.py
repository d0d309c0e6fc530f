"""Returns poison messages to their queue three times, then records them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from shared import telemetry
from shared.clock import Deadline
from shared.delivery.messages.message import MessagePart
from shared.engine.keeping.requeue import Requeue
from shared.engine.ports import POISON_QUEUES, OnLoop, Queue, Receiver
from shared.engine.timers.receiving import Intake, ReadMessage

ROUNDS = 3  # how often a message is returned before it is recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnPoison:
    """Empties the poison queues."""

    intake: Intake
    receiver: Receiver
    requeue: Requeue
    on_loop: OnLoop

    def run(self, deadline: Deadline) -> None:
        """Return readable messages to ``retries``; record those that failed too often."""
        fault = None
        for queue in POISON_QUEUES:
            alone = [[each] for each in self.intake.take(queue, deadline)]
            failed = self.intake.for_each(queue, alone, partial(self._handle, queue), deadline)
            fault = fault or failed
        if fault:
            raise fault

    def _handle(self, queue: Queue, messages: list[ReadMessage]) -> None:
        (each,) = messages
        if each.parts[0].rounds < ROUNDS:
            for part in each.parts:
                self._return(queue, part)
            self.receiver.delete(queue, each.received)
        else:
            self.intake.record(queue, each, f"failed again after {ROUNDS} rounds")

    def _return(self, queue: Queue, message: MessagePart) -> None:
        again = replace(message, due=None, rounds=message.rounds + 1)
        self.on_loop(self.requeue.at_due(again))
        telemetry.warning(
            "message.requeued",
            queue=queue,
            topic=message.topic,
            subscription=message.subscription,
            rounds=message.rounds + 1,
            events=len(message.deliveries),
        )
