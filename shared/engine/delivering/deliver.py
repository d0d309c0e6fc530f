"""
Delivers one queue message: its parts are pushed side by side, and what follows is stored.

A part waits in its endpoint's line, and each of its events gets a result (`endpoint.py`):

- The endpoint answers, or hangs until the timeout: an attempt. Its retry or dead letter is stored
  within about a second (`settle.py`), whatever else of the message is still open.
- The endpoint is held, paused by an operator or over its rate; the event has waited for 60 s; too
  many messages are in hand; or we are short of something: not now. It is stored without an attempt
  counted, and comes back after the hold or at the endpoint's pace, within five minutes.
- The endpoint accepts it after the timeout: what was stored is taken back, unless it has been
  received by then.

If the host dies, the message comes again after ten minutes, and all of it is pushed again.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from shared import telemetry
from shared.clock import Clock
from shared.delivery.messages.message import MessagePart, OtherVersion, ReplayStep
from shared.delivery.messages.message_reader import decode
from shared.engine.delivering.attempt_recorder import AttemptRecorder
from shared.engine.delivering.endpoints import Endpoints
from shared.engine.delivering.in_hand import MessageInHand, MessagesInHand, Part
from shared.engine.delivering.judge import PartJudge, comes_back
from shared.engine.delivering.settle import Settler
from shared.engine.keeping.clock_records import ClockRecords
from shared.engine.keeping.put_settling import PutSettling
from shared.engine.keeping.requeue import OTHER_VERSION_AGAIN_IN, Requeue
from shared.engine.ports import OffLoop, Queue
from shared.engine.ports.settling import Settlement, Settling
from shared.errors import MalformedMessage, StorageUnavailable
from shared.subscriptions.subscription import SubscriptionKey
from shared.tasks import loop_time

AT_A_TURN = 8  # parts that enter before others of the loop have their turn: a millisecond
PART_FAILED_AGAIN_IN = timedelta(minutes=1)  # as the host repeats messages
LARGE = 16 * 1024  # bytes of a body that takes the processor for over a millisecond


@dataclass(slots=True)
class Turns:
    """
    Lets `AT_A_TURN` parts of a queue enter in a turn of the loop, subscriptions by turns.

    Many for one that hangs, or that come back together, keep it from no other.
    """

    _entered: int = 0  # in this turn
    _waiting: dict[SubscriptionKey, deque[asyncio.Future[None]]] = field(default_factory=dict)

    async def wait(self, key: SubscriptionKey) -> None:
        """Wait until one more part of that subscription may enter."""
        loop = asyncio.get_running_loop()
        if not self._entered:
            loop.call_soon(self._next_turn)
        if self._entered < AT_A_TURN:
            self._entered += 1
            return
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.setdefault(key, deque()).append(turn)
        await turn

    def _next_turn(self) -> None:
        self._entered = 0
        while self._waiting and self._entered < AT_A_TURN:
            key = next(iter(self._waiting))
            turns = self._waiting.pop(key)
            turn = turns.popleft()
            if turns:
                self._waiting[key] = turns  # behind the others
            if not turn.done():  # Its message may have been cancelled.
                turn.set_result(None)
                self._entered += 1
        if self._entered:
            asyncio.get_running_loop().call_soon(self._next_turn)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliver:
    """The use case of both queue triggers, first attempts and retries, on the event loop."""

    judge: PartJudge
    endpoints: Endpoints
    in_hand: dict[Queue, MessagesInHand]
    requeue: Requeue
    recorder: AttemptRecorder
    clock: Clock
    jitter: Callable[[], float]
    clock_records: ClockRecords
    off_loop: OffLoop
    replay: Callable[[ReplayStep], None]
    turns: defaultdict[Queue, Turns] = field(default_factory=lambda: defaultdict(Turns), init=False)

    async def run(self, body: bytes, queue: Queue, settling: Settling | None = None) -> None:
        """
        Push what is due of a message from *queue*; or do a replay's step.

        *settling* is that of a store which has given the message and ends it; without it, the
        message may be deleted once this returns: what follows is stored then. What has no
        deliveries (a replay's step, a message of another version) is not settled: whoever gave it
        ends it once this returns.

        Raises:
            MalformedMessage, StorageUnavailable: among others; the host repeats the message.
        """
        in_hand = self.in_hand[queue]
        message = MessageInHand(of_queue=in_hand, since=loop_time(), jitter=self.jitter())
        in_hand.messages[message] = None
        try:
            parts = await self._read(body)
            if not parts:
                return
            if queue is Queue.RETRIES:
                self.endpoints.scheduler.processes.come_first()
            settler = Settler(
                message=message,
                settling=settling
                or PutSettling(
                    requeue=self.requeue,
                    metrics=self.recorder.metrics,
                    record=self.recorder.history.add,
                ),
                recorder=self.recorder,
                clock=self.clock,
                is_unchanged=self.judge.is_unchanged,
                off_loop=self.off_loop,
            )
            async with self.endpoints.memory_for(parts) as has_memory:
                if has_memory:
                    await self._deliver(parts, settler, self.turns[queue])
                    return
            back = [comes_back(each, self.endpoints.book_return(each)) for each in parts]
            await settler.settle(back)
        finally:
            del in_hand.messages[message]

    def leftovers(self) -> Iterator[str]:
        """Yield what has not ended: messages, lines, and what uses the budget."""
        for queue, in_hand in self.in_hand.items():
            if in_hand.messages:
                yield f"queue {queue}: messages in hand {len(in_hand.messages)}"
        yield from self.endpoints.leftovers()

    async def _read(self, body: bytes) -> Sequence[MessagePart]:
        """Return what each subscription gets of a message; do at once what is no delivery."""
        bounds = self.clock_records.bounds()
        read = partial(decode, body, bounds)
        found = await self.off_loop(read) if len(body) > LARGE else read()
        if isinstance(found, OtherVersion):
            telemetry.warning("message.other_version", version=found.version)
            await self.requeue.put(Queue.RETRIES, body.decode(), OTHER_VERSION_AGAIN_IN)
            return ()
        if isinstance(found, ReplayStep):
            await self.off_loop(partial(self.replay, found))
            return ()
        if any(part.dead_letter for part in found):
            raise MalformedMessage("dead letters are not delivered")
        self.clock_records.record_all(bounds, found[0].key)
        return found

    async def _deliver(self, parts: Sequence[MessagePart], settler: Settler, turns: Turns) -> None:
        """Push the parts side by side; an internal error in one harms no other."""
        faults = settler.message.faults
        begun: list[asyncio.Task[Settlement | None]] = []
        entering = asyncio.create_task(self._enter_all(parts, settler, turns, begun))
        try:
            await settler.run()
            await entering
        except BaseException:
            for task in (entering, *begun):  # Now: none of them may line up a part after this.
                task.cancel()
            settler.comes_again()
            raise
        for part in parts if faults else ():
            if fault := faults.get(part.key.folded):
                _log_fault(part, fault)
                if len(parts) == 1 or not await self._store_apart(part, settler):
                    settler.comes_again()
                    raise fault

    async def _enter_all(
        self,
        parts: Sequence[MessagePart],
        settler: Settler,
        turns: Turns,
        entering: list[asyncio.Task[Settlement | None]],
    ) -> None:
        """Line up all parts in their turn; one that waits for storage keeps no other waiting."""
        message = settler.message
        try:
            for part in parts:
                await turns.wait(part.key.folded)
                entering.append(asyncio.create_task(self._enter(part, settler)))
            entered = await asyncio.gather(*entering, return_exceptions=True)
            for part, each in zip(parts, entered, strict=True):
                if isinstance(each, BaseException):
                    message.faults[part.key.folded] = each
            unjudged = [each for each in entered if isinstance(each, Settlement)]
            try:
                if unjudged:
                    await settler.settle(unjudged)
            except StorageUnavailable as fault:
                message.faults.update({each.part.key.folded: fault for each in unjudged})
        finally:
            for task in entering:
                task.cancel()
            message.have_entered()

    async def _enter(self, part: MessagePart, settler: Settler) -> Settlement | None:
        """Judge a part, and line it up at its endpoint, which decides what is pushed now."""
        try:
            judged = self.judge.from_cache(part)
            if judged is None:
                await self.judge.ready(part)
                judged = await self.off_loop(partial(self.judge.from_storage, part))
        except StorageUnavailable:
            judged = self.judge.later(part)
        if not isinstance(judged, Part):
            return judged
        settler.begin(judged)
        if judged.to_push:
            endpoint = self.endpoints.of(judged.subscription)
            await endpoint.health.learn(judged.terms)
            endpoint.enter(judged)
        return None

    async def _store_apart(self, part: MessagePart, settler: Settler) -> bool:
        """Store a part that failed as a message of its own, so that no other repeats."""
        try:
            back = comes_back(part, self.clock.now() + PART_FAILED_AGAIN_IN)
            await settler.settle([back], repeat_for=timedelta())
        except StorageUnavailable:
            return False
        return True


def _log_fault(part: MessagePart, fault: BaseException) -> None:
    telemetry.error(
        "delivery.failed", topic=part.topic, subscription=part.subscription, detail=repr(fault)
    )
