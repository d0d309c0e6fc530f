"""A deployment whose queues are worked off in simulated time, with crashes where a test wants."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from pushgrid.testing.memory import FakeClock, ScriptedPusher, StoredMessage, answered
from shared.delivery.messages.message import MessagePart
from shared.delivery.profiles import PROFILES
from shared.engine.delivering.deployment_terms import DeploymentTerms
from shared.engine.ports import Queue
from shared.errors import StorageUnavailable
from shared.http import Answered, Exchange, LateAnswerHandler, OutboundRequest
from shared.subscriptions.subscription import EventSubscription
from tests.builders import a_subscription
from tests.functional.deployment import Deployment

MAX_STEPS = 50_000  # a day of holds, checked every five minutes, is far below it
AGAIN_IN = timedelta(minutes=1)  # what the host waits before it repeats what has failed
WORKED_OFF = (Queue.DELIVERIES, Queue.RETRIES, Queue.WAITING, Queue.DEADLETTERS)


class Endpoint(ScriptedPusher):
    """Answers in turn, the last one for ever, and keeps what it has got and when."""

    def __init__(self, clock: FakeClock, answers: Sequence[Exchange]) -> None:
        super().__init__(clock)
        self._answers = list(answers)
        self.got: list[tuple[str, datetime, int | None]] = []  # id, when, and the answer

    async def send(
        self, request: OutboundRequest, timeout: timedelta, late: LateAnswerHandler | None = None
    ) -> Exchange:
        del timeout, late
        now = self._clock.now()
        exchange = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        status = exchange.status if isinstance(exchange, Answered) else None
        self.got += [(event["id"], now, status) for event in json.loads(request.body)]
        await asyncio.sleep(exchange.seconds)
        return exchange


class _Drops(logging.Handler):
    """Hears which events were dropped."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.ids: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        line = json.loads(record.getMessage())
        if line["event"] == "delivery.dropped":
            self.ids.update(line.get("event_ids", ()))


class Simulation:
    """One subscription under any profile; *crashes* are the steps whose message comes again."""

    def __init__(
        self,
        *,
        answers: Sequence[Exchange] = (answered(200),),
        crashes: Iterable[int] = (),
        **choices: Any,
    ) -> None:
        self.app = Deployment()
        self.endpoint = Endpoint(self.app.clock, answers)
        self.app.set_terms(**choices)
        self.app.push_with(self.endpoint)
        self.terms: DeploymentTerms = self.app.deliver.parts.terms
        self._crashes = set(crashes)
        self.steps = 0
        self.delivered: Counter[str] = Counter()
        self.dead_lettered: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()

    def subscribe(self, subscription: EventSubscription | None = None) -> None:
        self.app.directory.add(subscription or a_subscription())

    def put(self, *messages: MessagePart) -> None:
        """Publish: a message each."""
        self.app.put(Queue.DELIVERIES, *messages)

    def run(self, *messages: MessagePart) -> None:
        """Work everything off, and count the ends of the events."""
        self.put(*messages)
        with self._hearing() as drops:
            while following := self._next():
                self.steps += 1
                assert self.steps < MAX_STEPS, "the simulation has no end"
                self._work(*following)
        codes = PROFILES[self.terms.default_profile].success_codes
        self.delivered.update(id_ for id_, _, status in self.endpoint.got if status in codes)
        self.dropped = drops.ids
        for body in self.app.dead_letters.blobs.values():
            self.dead_lettered.update(record["id"] for record in json.loads(body))

    def _next(self) -> tuple[Queue, StoredMessage] | None:
        """Let the time pass until a message is visible; return it."""
        following = self.app.queues.earliest(*WORKED_OFF)
        if following:
            now = self.app.clock.now()
            self.app.clock.advance(max(following[1].visible_at - now, timedelta()))
        return following

    def _work(self, queue: Queue, message: StoredMessage) -> None:
        if queue is Queue.WAITING:
            self.app.wake.run(self.app.in_a_minute())
            return
        if queue is Queue.DEADLETTERS:
            self.app.write_dead_letters.run(self.app.in_a_minute())
            return
        message.visible_at = self.app.clock.now() + AGAIN_IN
        try:
            self.app.work(message.text)
        except StorageUnavailable:
            return  # The host repeats it.
        if self.steps in self._crashes:
            return  # Everything is done, but the message was not deleted.
        self.app.queues.stored[queue].remove(message)

    @contextmanager
    def _hearing(self) -> Iterator[_Drops]:
        drops, logger = _Drops(), logging.getLogger("pushgrid")
        logger.addHandler(drops)
        try:
            yield drops
        finally:
            logger.removeHandler(drops)
