"""
Delivers one queue message: its parts are pushed side by side, and what follows is stored.

A part waits in its endpoint's line, and each of its events gets a result (`endpoint.py`):

- The endpoint answers, or hangs until the timeout: an attempt. Its retry or dead letter is stored
  within about a second (`follow.py`), whatever else of the message is still open.
- The endpoint is held, paused by an operator or over its rate; the event has waited for 60 s;
  others need the message's place; or we are short of something: not now. It is stored without an
  attempt counted, and comes back after the hold or at the endpoint's pace, within five minutes.
- The endpoint accepts it after the timeout: what was stored is taken back (`requeue.py`), unless it
  has been received by then.

If the host dies, the message comes again after ten minutes, and all of it is pushed again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from shared import telemetry
from shared.clock import Clock
from shared.delivery.messages.message import MessagePart, OtherVersion, ReplayStep
from shared.delivery.messages.message_reader import decode
from shared.delivery.messages.packing import due_together
from shared.engine.delivering.attempt_recorder import AttemptHistory
from shared.engine.delivering.budget import Places
from shared.engine.delivering.endpoints import Endpoints
from shared.engine.delivering.in_flight import InFlightMessage
from shared.engine.delivering.judge import PartJudge, ToRequeue
from shared.engine.delivering.late import Stored
from shared.engine.delivering.settle import Follow
from shared.engine.keeping.clock_records import ClockRecords
from shared.engine.keeping.event_loop import loop_time
from shared.engine.keeping.requeue import OTHER_VERSION_AGAIN_IN, Requeue, all_stored
from shared.engine.ports import Metrics, OffLoop, Queue
from shared.errors import MalformedMessage, StorageUnavailable
from shared.subscriptions.subscription import EventSubscription

AT_ONCE = 8  # parts that enter before others of the loop have their turn: a millisecond
PART_FAILED_AGAIN_IN = timedelta(minutes=1)  # as the host repeats messages
LARGE = 16 * 1024  # bytes of a body that takes the processor for over a millisecond
BLOB = 1024 * 1024  # bytes of a payload blob that is not read yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliver:
    """The use case of both queue triggers, first attempts and retries, on the event loop."""

    parts: PartJudge
    endpoints: Endpoints
    places: dict[Queue, Places]
    requeue: Requeue
    history: AttemptHistory
    clock: Clock
    jitter: Callable[[], float]
    metrics: Metrics
    clock_records: ClockRecords
    off_loop: OffLoop
    replay: Callable[[ReplayStep], None]

    async def run(self, body: bytes, queue: Queue) -> None:
        """
        Push what is due of a message from *queue*; or do a replay's step.

        Returns once what follows is stored: the message may be deleted.

        Raises:
            MalformedMessage, StorageUnavailable: among others; the host repeats the message.
        """
        parts = await self._read(body)
        if not parts:
            return
        if queue is Queue.RETRIES:
            self.endpoints.processes.come_first()
        places = self.places[queue]
        places.taken += 1
        try:
            size = sum(_size(part) for part in parts)
            speed = self.endpoints.speed_of(part.key for part in parts)
            async with self.endpoints.budget.memory(size, speed) as has_memory:
                if has_memory:
                    await self._deliver(parts, places)
                    return
            back = [
                ToRequeue(replace(part, due=self.endpoints.book_return(part))) for part in parts
            ]
            await self._requeue(back, places)
        finally:
            places.taken -= 1

    def leftovers(self) -> Iterator[str]:
        """Yield what has not ended: messages, lines, and what uses the budget."""
        for queue, places in self.places.items():
            if places.taken:
                yield f"queue {queue}: messages in hand {places.taken}"
        yield from self.endpoints.leftovers()

    async def _read(self, body: bytes) -> Sequence[MessagePart]:
        """Return what each subscription gets of a message; do at once what is no delivery."""
        read = partial(decode, body)
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
        return self.clock_records.as_read(found)

    async def _deliver(self, parts: Sequence[MessagePart], places: Places) -> None:
        """Push the parts side by side; an internal error in one harms no other."""
        message = self._new_message(places)
        entering = asyncio.create_task(self._enter_all(parts, message))
        try:
            await self._follow(message)
            await entering
        except BaseException:
            entering.cancel()
            message.abandon()
            raise
        for part in parts:
            if fault := message.faults.get(part.key.folded):
                _log_fault(part, fault)
                if len(parts) == 1 or not await self._store_apart(part):
                    message.abandon()
                    raise fault

    def _new_message(self, places: Places) -> InFlightMessage:
        follow = Follow(
            stored=Stored(requeue=self.requeue, metrics=self.metrics),
            history=self.history,
            metrics=self.metrics,
            clock=self.clock,
            is_unchanged=self._is_unchanged,
            patience=places.patience,
        )
        return InFlightMessage(
            places=places, follow=follow, since=loop_time(), jitter=self.jitter()
        )

    async def _enter_all(self, parts: Sequence[MessagePart], message: InFlightMessage) -> None:
        """Line up all parts, a few at a time; one that waits for storage keeps no other waiting."""
        entering: list[asyncio.Task[ToRequeue | None]] = []
        try:
            async with message.places.entrance:
                for number, part in enumerate(parts, 1):
                    entering.append(asyncio.create_task(self._enter(part, message)))
                    if number % AT_ONCE == 0:
                        await asyncio.sleep(0)
            entered = await asyncio.gather(*entering, return_exceptions=True)
            back = [each for each in entered if isinstance(each, ToRequeue)]
            try:
                await self._requeue(back, message.places)
            except StorageUnavailable as fault:
                message.faults.update({each.part.key.folded: fault for each in back})
            for part, each in zip(parts, entered, strict=True):
                if isinstance(each, BaseException):
                    message.faults[part.key.folded] = each
        finally:
            for task in entering:
                task.cancel()
            message.have_entered()

    async def _requeue(self, parts: Sequence[ToRequeue], places: Places) -> None:
        """Store what comes back unjudged, together what is due together."""
        now = self.clock.now()
        puts: list[Awaitable[object]] = []
        patience = places.patience()
        for is_held in {each.is_held for each in parts}:
            alike = [each.part for each in parts if each.is_held is is_held]
            waiting = [(part.due or now, part) for part in alike]
            for due, together in due_together(waiting, now):
                messages = [replace(each, due=due) for each in together]
                puts.append(self.requeue.at_due(*messages, is_held=is_held, patience=patience))
        await all_stored(puts)

    async def _enter(self, part: MessagePart, message: InFlightMessage) -> ToRequeue | None:
        """Judge a part, and line it up at its endpoint, which decides what is pushed now."""
        try:
            judged = self.parts.from_cache(part)
            if judged is None:
                await self.parts.ready(part)
                judged = await self.off_loop(partial(self.parts.from_storage, part))
        except StorageUnavailable:
            judged = self.parts.later(part)
        if judged is None or isinstance(judged, ToRequeue):
            return judged
        message.follow.begin(judged)
        if not judged.to_push:
            return None
        endpoint = self.endpoints.of(judged.subscription)
        await endpoint.health.learn(judged.terms)
        entered = endpoint.enter(judged, message)
        await asyncio.sleep(0)  # those that wait for nothing enter before any is pushed
        endpoint.pump()
        if message.places.are_scarce:
            endpoint.requeue_unless_prompt(entered)
        return None

    async def _follow(self, message: InFlightMessage) -> None:
        """Take results as they come, and store what follows, until nothing is open."""
        follow = message.follow
        while message.is_open:
            for result in await message.results(follow.flush_at):
                part = result.part
                try:
                    if part.key.folded not in message.faults:
                        await follow.take(result)
                except Exception as fault:  # noqa: BLE001 - raised when all parts have ended
                    message.abandon(part)
                    message.faults[part.key.folded] = fault
            if follow.is_due:
                await follow.flush()
        await follow.flush()
        follow.log_runs()

    async def _is_unchanged(self, subscription: EventSubscription) -> bool:
        return await self.off_loop(partial(self.parts.is_unchanged, subscription))

    async def _store_apart(self, part: MessagePart) -> bool:
        """Store a part that failed as a message of its own, so that no other repeats."""
        due = self.clock.now() + PART_FAILED_AGAIN_IN
        try:
            await self.requeue.at_due(replace(part, due=due), patience=timedelta())
        except StorageUnavailable:
            return False
        return True


def _size(part: MessagePart) -> int:
    """Return about how many bytes the events of a part take in memory."""
    blobs = {each.origin.payload for each in part.deliveries if each.text is None}
    return len(blobs) * BLOB + sum(len(each.text or "") for each in part.deliveries)


def _log_fault(part: MessagePart, fault: BaseException) -> None:
    telemetry.error(
        "delivery.failed", topic=part.topic, subscription=part.subscription, detail=repr(fault)
    )
