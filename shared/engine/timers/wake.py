"""Moves deliveries that are due soon from ``waiting`` to ``retries``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from shared import telemetry
from shared.clock import Clock, Deadline
from shared.delivery.messages.copies import without_copies
from shared.delivery.messages.merging import headers_of, merged
from shared.delivery.messages.message_writer import encode_together
from shared.delivery.messages.packing import due_together, most_events
from shared.engine.keeping.requeue import Requeue
from shared.engine.ports import OnLoop, Queue
from shared.engine.ports.settling import REPEATED_FOR
from shared.engine.timers.receiving import Intake, ReadMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Wake:
    """The wake timer's job: empties ``waiting``, and merges messages of like subscriptions."""

    intake: Intake
    requeue: Requeue
    on_loop: OnLoop
    message_size: int  # bytes
    clock: Clock

    def run(self, deadline: Deadline) -> None:
        """
        Move visible messages until *deadline*; delete one only after its replacement is stored.

        One replacement after the other is put and what it replaces deleted: a request that fails,
        or whose answer is lost, repeats the deliveries of one message at most.
        """
        moved: list[ReadMessage] = []
        fault = None
        move = partial(self._move, deadline, moved)
        while taken := self.intake.take(Queue.WAITING, deadline):
            groups = self._replaceable(taken)
            failed = self.intake.for_each(Queue.WAITING, groups, move, deadline)
            fault = fault or failed
        if moved:
            telemetry.info("delivery.woken", messages=len(moved))
        if fault:
            raise fault

    def _replaceable(self, taken: Sequence[ReadMessage]) -> Iterator[list[ReadMessage]]:
        """Group messages that one can replace: of the same subscriptions, and due together."""
        now = self.clock.now()
        kept = without_copies([each.parts for each in taken])
        alike: dict[object, list[ReadMessage]] = defaultdict(list)
        for each, parts in zip(taken, kept, strict=True):
            alike[headers_of(parts)].append(replace(each, parts=parts))
        for group in alike.values():
            for _, together in due_together([(_due(each, now), each) for each in group], now):
                yield from _fitting(together, self.message_size)

    def _move(self, deadline: Deadline, moved: list[ReadMessage], group: list[ReadMessage]) -> None:
        now = self.clock.now()
        due = max(_due(each, now) for each in group)
        if parts := merged(each.parts for each in group):
            # Not all of the time that is left: what follows may be stored though this can't be.
            repeat_for = min(REPEATED_FOR, max(deadline.time_left, timedelta()) / 2)
            again = [replace(each, due=due) for each in parts]
            self.on_loop(self.requeue.at_due(*again, repeat_for=repeat_for))
        moved += group
        self.intake.delete_all(Queue.WAITING, group)


def _fitting(messages: list[ReadMessage], message_size: int) -> Iterator[list[ReadMessage]]:
    """Divide messages of the same subscriptions into groups that fit into one message each."""
    headers = headers_of(part for each in messages for part in each.parts)
    most = most_events(max((part.batch_size for part in headers), default=1))
    group: list[ReadMessage] = []
    count = 0
    for each in messages:
        size = sum(len(part.deliveries) for part in each.parts)
        if group and count + size > most:
            yield from _storable(group, message_size)
            group, count = [], 0
        group.append(each)
        count += size
    yield from _storable(group, message_size)


def _storable(messages: list[ReadMessage], message_size: int) -> Iterator[list[ReadMessage]]:
    """Divide messages whose events are too large for one; what can't be written goes alone."""
    count = 1
    if len(messages) > 1:
        try:
            count = len([*encode_together(merged(each.parts for each in messages), message_size)])
        except Exception:  # noqa: BLE001 - it is raised again where only its own message is moved
            count = len(messages)
    if count <= 1:
        yield messages
        return
    size = -(-len(messages) // count)
    for start in range(0, len(messages), size):
        yield from _storable(messages[start : start + size], message_size)


def _due(message: ReadMessage, now: datetime) -> datetime:
    return (message.parts[0].due if message.parts else None) or now
