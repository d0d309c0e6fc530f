"""Looks at each queue: how long messages wait, for log lines, alerts and health; is it missing?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from shared import telemetry
from shared.clock import Clock, Deadline
from shared.delivery.messages.message_reader import due_of
from shared.engine.ports import Backlog, Queue, QueueWatch, Store
from shared.errors import FirstFault

EVERY = timedelta(minutes=1)  # at most; local timers run every few seconds


class QueueState(NamedTuple):
    """
    The number of messages, hidden ones included, and the lateness of the oldest visible one.

    Lateness counts from a message's due time or, without one, from when it was stored. ``None``:
    no message is visible.
    """

    messages: int
    oldest: timedelta | None


def state_of(backlog: Backlog | None, now: datetime) -> QueueState:
    if backlog is None:
        return QueueState(0, None)
    since = [max(seen.stored_at, due_of(seen.text) or seen.stored_at) for seen in backlog.visible]
    oldest = max(now - min(since), timedelta()) if since else None
    return QueueState(backlog.messages, oldest)


def states(store: Store, now: datetime) -> Mapping[Queue, QueueState]:
    return {queue: state_of(store.queues.peek(queue), now) for queue in store.traits.queues}


@dataclass(slots=True, kw_only=True)
class WatchQueues:
    """
    A job of the dead-letter timer: makes every queue that is missing, and logs those that have
    messages, each once more when it is empty.
    """

    watch: QueueWatch
    queues: Sequence[Queue]
    clock: Clock
    monotonic: Callable[[], float]
    looked_at: float | None = None  # seconds, by that
    _nonempty: set[Queue] = field(default_factory=set)

    @property
    def is_empty(self) -> bool:
        """Whether all queues were empty when it last looked."""
        return not self._nonempty

    def run(self, deadline: Deadline) -> None:
        """Look, at most once a minute. Raises StorageUnavailable, also if one can't be made."""
        now, looked_at = self.monotonic(), self.looked_at
        is_early = looked_at is not None and now - looked_at < EVERY.total_seconds()
        if deadline.has_passed or is_early:
            return
        unmade = FirstFault()
        for queue in self.queues:
            backlog = self.watch.peek(queue)
            if backlog is None:
                with unmade:
                    self.watch.make(queue)
            state = state_of(backlog, self.clock.now())
            if state.messages or queue in self._nonempty:
                telemetry.info(
                    "queue.depth",
                    queue=queue,
                    messages=state.messages,
                    oldest_seconds=round(state.oldest.total_seconds(), 1) if state.oldest else 0.0,
                )
            self._nonempty = (self._nonempty - {queue}) | ({queue} if state.messages else set())
        self.looked_at = now
        unmade.raise_it()
