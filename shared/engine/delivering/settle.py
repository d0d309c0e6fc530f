"""Decides what follows for the deliveries of one message, and settles its parts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from shared import telemetry
from shared.clock import Clock, trusted_now
from shared.delivery.delivery import Batch, Delivery
from shared.delivery.gate import Held, hold_back
from shared.delivery.messages.packing import due_together
from shared.delivery.outcome import DeliveryOutcome
from shared.delivery.policy import (
    Decision,
    Delivered,
    End,
    EndReason,
    EndState,
    RetryAt,
    decide,
    retried_together,
    retry,
)
from shared.engine.delivering.attempt_recorder import AttemptRecorder
from shared.engine.delivering.in_hand import Attempted, MessageInHand, Part, Result
from shared.engine.ports import OffLoop
from shared.engine.ports.settling import (
    Answer,
    Ended,
    FollowUp,
    Settled,
    Settlement,
    Settling,
    judged_again,
)
from shared.subscriptions.subscription import EventSubscription
from shared.tasks import loop_time

K = TypeVar("K")
T = TypeVar("T")
_Waiting = tuple[datetime, bool, T]

GATHER_FOR = 1.0  # seconds: failures within this time share their retry message
CONFIRMED_FOR = 1.0  # seconds: a subscription found unchanged counts as such

_DELIVERED = Delivered()
_PAYLOAD_MISSING = End(EndReason.PAYLOAD_MISSING, "its payload blob is missing")


@dataclass(slots=True, kw_only=True, eq=False)
class Settler:
    """Settles one message: its deliveries' retries and ends are stored in few messages."""

    message: MessageInHand
    settling: Settling
    recorder: AttemptRecorder
    clock: Clock
    # Whether a subscription is what is stored now: a read, on a thread.
    is_unchanged: Callable[[EventSubscription], bool]
    off_loop: OffLoop
    # When what was decided is to be stored, in seconds of the loop's clock; ``None``: it is.
    _flush_at: float | None = None
    _parts: dict[Part, datetime] = field(default_factory=dict)  # when they began
    # What comes back: when, and whether a hold keeps it.
    _later: list[_Waiting[tuple[Part, Delivery]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        # No method: a circle of settler and message would leave both to the garbage collector.
        self.message.answered_late = partial(_answered_late, self.settling, self.recorder)

    def begin(self, part: Part) -> None:
        """Take a part, and end what of it is not tried any more."""
        part.begin(self.message)
        self._parts[part] = self.clock.now()
        for delivery, end in part.ended:
            self._end_untried(part, delivery, end)
        for delivery in part.lost:  # There is nothing to dead-letter.
            self._end_untried(part, delivery, _PAYLOAD_MISSING)

    async def run(self) -> None:
        """
        Take results as they come, and store what follows, until nothing is open.

        Raises:
            StorageUnavailable: the message must not be deleted.
        """
        message = self.message
        while message.is_open:
            results = await message.results(self._flush_at)
            if seen := [each for each in results if self._is_seen(each[0], each[2])]:
                self.recorder.seen(seen, self.settling.metrics)
            for part, batch, result in results:
                try:
                    if part.key.folded not in message.faults:
                        await self._take(part, batch, result)
                except Exception as fault:  # noqa: BLE001 - raised when all parts have ended
                    self.comes_again(part)
                    message.faults[part.key.folded] = fault
                if not part.open and message.is_open:  # Nothing of it is to be repeated.
                    self._flush_soon()
            if self._flush_at is not None and self._flush_at <= loop_time():
                await self._flush()
        await self._flush()
        self._log_runs()

    async def settle(
        self, settlements: Sequence[Settlement], repeat_for: timedelta | None = None
    ) -> None:
        """
        Settle parts that were not judged, or failed: what is due together comes back together.

        Raises:
            StorageUnavailable: they must come again.
        """
        now = self.clock.now()
        dated = [each for each in settlements if not each.follow_ups]
        waiting = [
            (again.part.due or now, again.is_held, (settlement, again))
            for settlement in settlements
            for again in settlement.follow_ups
        ]
        for due, _, together in _due_alike(waiting, now):
            dated += [
                replace(each, follow_ups=[again._replace(part=replace(again.part, due=due))])
                for each, again in together
            ]
        if repeat_for is None:
            repeat_for = self.message.of_queue.repeat_for
        asked = dict(enumerate(dated))
        while asked:
            answers, asked = await self._ask(asked, repeat_for)
            for _, each, settled in answers:
                if each.ends and settled.answer is not Answer.NOT_OURS:
                    self.recorder.ends.log_dropped(each.ends)

    def comes_again(self, part: Part | None = None) -> None:
        """Push nothing more of one part, or of the whole message: it comes again."""
        self.settling.comes_again(each.key for each in self._parts if part in (None, each))
        self.message.abandon(part)

    def _is_seen(self, part: Part, result: Result) -> bool:
        return not isinstance(result, Exception) and part.key.folded not in self.message.faults

    async def _take(self, part: Part, batch: Batch, result: Result) -> None:
        """Decide what follows a result; raise it, if it is an internal error."""
        if isinstance(result, Exception):
            raise result
        if isinstance(result, Attempted):
            await self._attempted(part, batch, result)
        elif result.held:
            await self._hold(part, batch, result.due, result.held)
        else:
            part.counts["requeued"] += len(batch)
            part.requeue_reason = result.why
            self._keep(part, result.due, batch)

    async def _flush(self) -> None:
        """Settle what was decided, with the attempts that led to it."""
        self._flush_at = None
        asked = settlements = self._settlements(self.clock.now())
        while asked:
            answers, asked = await self._ask(asked, self.message.of_queue.repeat_for)
            for part, settlement, settled in answers:
                part.counts["retried"] += len(settlements[part].ends) - len(settlement.ends)
                self._settled(part, settlement, settled)
        for part in self._parts:  # Also of one that failed the attempts were made.
            if part.rows and part.key.folded in self.message.faults:
                self.recorder.history.add(part.rows)
                part.rows = []

    async def _ask(
        self, asked: Mapping[K, Settlement], repeat_for: timedelta
    ) -> tuple[list[tuple[K, Settlement, Settled]], dict[K, Settlement]]:
        """Settle; return the answers, and what is to be asked again, as it ends nothing now."""
        answers, again = [], {}
        found = await self.settling.settle([*asked.values()], repeat_for)
        for settled, (key, each) in zip(found, asked.items(), strict=True):
            if settled.answer is Answer.CHANGED:
                telemetry.info(
                    "delivery.unconfirmed", **each.part.key._asdict(), count=len(each.ends)
                )
                again[key] = judged_again(each, self.clock.now())
            else:
                answers.append((key, each, settled))
        return answers, again

    def _log_runs(self) -> None:
        """Log of each part what came of it."""
        now = self.clock.now()
        for part, began_at in self._parts.items():
            hold = part.held_by
            telemetry.info(
                "delivery.run",
                **part.key._asdict(),
                **part.counts,
                held_until=hold.until if hold else None,
                held_because=hold.why if hold else None,
                requeue_reason=part.requeue_reason,
                seconds=round((now - began_at).total_seconds(), 3),
            )

    async def _attempted(self, part: Part, batch: Batch, attempted: Attempted) -> None:
        """Decide what follows an attempt; its events come back together."""
        recorder, outcome = self.recorder, attempted.outcome
        if attempted.succeeded:
            part.delivered += batch
            part.counts["delivered"] += len(batch)
            if not recorder.history.keeps(EndState.DELIVERED):
                return
        tried = [each.tried(outcome, attempted.began_at) for each in batch]
        if attempted.succeeded:
            recorder.attempted(part, tried, attempted, [_DELIVERED] * len(tried))
            return
        decisions = retried_together([await self._decide(part, each, attempted) for each in tried])
        recorder.attempted(part, tried, attempted, decisions)
        for delivery, decision in zip(tried, decisions, strict=True):
            if isinstance(decision, RetryAt):
                part.counts["retried"] += 1
                self._keep(part, decision.due, [delivery])
            elif isinstance(decision, End):
                self._end(part, delivery, decision)

    async def _decide(self, part: Part, tried: Delivery, attempted: Attempted) -> Decision:
        rules = attempted.outcome, part.terms, attempted.ended_at, attempted.jitter
        decision = decide(tried, *rules)
        if isinstance(decision, End) and not await self._is_confirmed(part):
            retried = retry(tried, *rules)
            why = f"the end is not confirmed: the subscription may have changed; {retried.why}"
            return replace(retried, why=why)
        return decision

    async def _is_confirmed(self, part: Part) -> bool:
        """Ask once a second whether storage has the same subscription: only then an event ends."""
        now = loop_time()
        if part.confirmed is None or now - part.confirmed[0] >= CONFIRMED_FOR:
            ask = partial(self.is_unchanged, part.subscription)
            part.confirmed = now, await self.off_loop(ask)
        return part.confirmed[1]

    async def _hold(self, part: Part, batch: Batch, due: datetime, held: Held) -> None:
        """Keep what is held, as the deployment's switches say."""
        part.held_by, now = held, self.clock.now()
        for delivery in batch:
            judged = partial(hold_back, delivery, held, part.terms, now)
            kept, end = judged(trusted_now(self.clock))
            if end and await self._is_confirmed(part):
                # That read has compared the clock with storage's: by now the event may be younger.
                kept, end = judged(trusted_now(self.clock))
            elif end:
                kept, end = delivery, None
            if end:
                self._end_untried(part, kept, end)
            else:
                part.counts["held"] += 1
                self._keep(part, due, [kept], is_held=True)

    def _keep(self, part: Part, due: datetime, deliveries: Batch, *, is_held: bool = False) -> None:
        self._later += [(due, is_held, (part, each)) for each in deliveries]
        self._flush_soon()

    def _end_untried(self, part: Part, delivery: Delivery, end: End) -> None:
        self.recorder.ended(part, delivery, end)
        self._end(part, delivery, end)

    def _end(self, part: Part, delivery: Delivery, end: End) -> None:
        """Dead-letter it where a destination is configured, else drop it."""
        state = part.terms.end_state(end)
        part.ends.append(Ended(part.key, delivery, end.reason, state, part.terms))
        self._flush_soon()

    def _flush_soon(self) -> None:
        if self._flush_at is None:
            self._flush_at = loop_time() + GATHER_FOR
            self.message.wake()

    def _settlements(self, now: datetime) -> dict[Part, Settlement]:
        """Return what was decided, and which parts nothing is open of, once."""
        follow_ups: defaultdict[Part, list[FollowUp]] = defaultdict(list)
        for due, is_held, together in _due_alike(self._later, now):
            by_part: defaultdict[Part, list[Delivery]] = defaultdict(list)
            for part, delivery in together:
                by_part[part].append(delivery)
            for part, deliveries in by_part.items():
                follow_ups[part].append(FollowUp(part.again(deliveries, due), is_held))
        self._later, settlements = [], {}
        for part in self._parts:
            if part.key.folded in self.message.faults:  # It comes again as it was.
                part.ends = []
                continue
            is_whole = self.message.has_ended(part)
            follow_ups[part] += part.dead_letters(now)
            if follow_ups[part] or part.ends or (is_whole and not part.is_settled):
                settlements[part] = Settlement(
                    part=part.source,
                    follow_ups=follow_ups[part],
                    ends=part.ends,
                    subscription=part.subscription,
                    is_whole=is_whole,
                    attempts=part.rows,
                    delivered=part.delivered,
                )
                part.ends = []
        return settlements

    def _settled(self, part: Part, settlement: Settlement, settled: Settled) -> None:
        """Hear of the ends, but of what was delivered meanwhile, or is another process's."""
        part.is_settled, part.rows, part.delivered = settlement.is_whole, [], []
        if settled.answer is Answer.NOT_OURS:
            telemetry.warning("delivery.not_ours", **part.key._asdict())
            # What else was decided has not come about: the other process decides.
            delivered = [each for each in settlement.attempts if each.is_delivered]
            self.recorder.history.add(delivered)
            for each in settlement.follow_ups:
                self._count(part, each, -len(each.part.deliveries))
            self.message.abandon(part)
            return
        for each in settlement.follow_ups:
            late = sum(one.key in settled.delivered for one in each.part.deliveries)
            self._count(part, each, -late)
            part.counts["delivered"] += late
        for ended in settlement.ends:
            is_late = ended.delivery.key in settled.delivered
            if ended.state is EndState.DROPPED:
                part.counts["delivered" if is_late else "dropped"] += 1
            elif not is_late:
                part.counts["dead_lettered"] += 1
            if not is_late:
                self.recorder.heard(ended)

    @staticmethod
    def _count(part: Part, follow_up: FollowUp, by: int) -> None:
        """Correct as what deliveries were counted that come again."""
        if follow_up.blob_due_at is None:
            part.counts["held" if follow_up.is_held else "retried"] += by


def _answered_late(
    settling: Settling,
    recorder: AttemptRecorder,
    part: Part,
    batch: Batch,
    outcome: DeliveryOutcome,
) -> Coroutine[Any, Any, bool]:
    """
    Take back what followed for late successes; tell whether none is delivered again.

    No coroutine function: one would begin in a later turn of the loop, and what is settled before
    that would still come again. `take_back` marks the successes now; what it returns waits for
    storage.
    """
    taken_back = settling.take_back(part.key, batch)
    return _log_late(recorder, part, batch, outcome, taken_back)


async def _log_late(
    recorder: AttemptRecorder,
    part: Part,
    batch: Batch,
    outcome: DeliveryOutcome,
    taken_back: Awaitable[bool],
) -> bool:
    is_taken_back = await taken_back
    recorder.answered_late(part, batch, outcome, is_cancelled=is_taken_back)
    return is_taken_back


def _due_alike(
    waiting: Sequence[_Waiting[T]], now: datetime
) -> Iterator[tuple[datetime, bool, list[T]]]:
    """Group what comes back by due time, and what is held by itself."""
    for is_held in {each for _, each, _ in waiting}:
        alike = [(due, what) for due, each, what in waiting if each is is_held]
        for due, together in due_together(alike, now):
            yield due, is_held, together
