"""How long messages wait in our queues: for the log lines that alerts look at, and for health."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from shared import telemetry
from shared.clock import Clock
from shared.delivery.message_reader import due_of
from shared.engine.ports import Backlog, Queue, QueueWatch

EVERY = timedelta(minutes=1)  # at most: local timers run every few seconds


class QueueState(NamedTuple):
    """
    How many messages a queue has, hidden ones included, and how late the oldest visible one is.

    A message that waits for its time is late from then on, others from when they were stored.
    ``None``: nothing is visible.
    """

    messages: int
    oldest: timedelta | None


def state_of(backlog: Backlog, now: datetime) -> QueueState:
    """Say how late what is visible is."""
    since = [max(seen.stored_at, due_of(seen.text) or seen.stored_at) for seen in backlog.visible]
    oldest = max(now - min(since), timedelta()) if since else None
    return QueueState(backlog.messages, oldest)


def states(watch: QueueWatch, now: datetime) -> Mapping[Queue, QueueState]:
    """
    Look at every queue.

    Raises:
        StorageUnavailable: storage did not answer.
    """
    return {queue: state_of(watch.look(queue), now) for queue in Queue}


@dataclass(slots=True, kw_only=True)
class WatchQueues:
    """A job of the dead-letter timer: a line for every queue that holds something, or has held."""

    watch: QueueWatch
    clock: Clock
    _next: datetime | None = None
    _held: set[Queue] = field(default_factory=set)

    def run(self, deadline: datetime) -> None:
        """
        Write the lines, once a minute.

        Raises:
            StorageUnavailable: the next run looks again.
        """
        now = self.clock.now()
        if now >= deadline or (self._next and now < self._next):
            return
        for queue, state in states(self.watch, now).items():
            if state.messages or queue in self._held:
                telemetry.info(
                    "queue.depth",
                    queue=queue,
                    messages=state.messages,
                    oldest_seconds=round(state.oldest.total_seconds(), 1) if state.oldest else 0.0,
                )
            self._held = (self._held - {queue}) | ({queue} if state.messages else set())
        self._next = now + EVERY
