"""Delivers one queue message: its parts pass the gates, and what follows is stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from shared import telemetry
from shared.clock import Clock
from shared.delivery.furthest import Bounds
from shared.delivery.messages.bounded_message import bounded_message
from shared.delivery.messages.message import DeliveryMessage, NewerMessage, ReplayStep
from shared.delivery.messages.message_reader import decode
from shared.engine.delivering.attempt_history import AttemptHistory
from shared.engine.delivering.attempt_lines import AttemptLines
from shared.engine.delivering.clock_records import ClockRecords
from shared.engine.delivering.gate import Gate
from shared.engine.delivering.gates import Gates
from shared.engine.delivering.handover import Handover
from shared.engine.delivering.late_answers import LateAnswers
from shared.engine.delivering.ledger import Ledger
from shared.engine.delivering.parts import Part, Parts
from shared.engine.delivering.requeue import NEWER_AGAIN_IN, Requeue
from shared.engine.delivering.settle import Settlement
from shared.engine.delivering.visit import Visit
from shared.engine.ports import Inbox, Metrics, Queue, Tokens
from shared.errors import MalformedMessage, StorageUnavailable

WAIT_FOR_SLOTS = timedelta(seconds=60)  # no push of an invocation begins later
FAILED_AGAIN_IN = timedelta(minutes=1)  # a part in which we failed, as the host repeats messages
TICK = 1.0  # seconds after which an invocation looks after its parts even if nothing has ended


_Faults = list[tuple[DeliveryMessage, Exception]]


@dataclass(slots=True, kw_only=True, eq=False)
class _Course:
    """One part on its way through the stages."""

    gate: Gate
    visit: Visit
    settlement: Settlement
    handover: Handover
    began_at: datetime

    @property
    def fetches_token(self) -> bool:
        """Whether a token has to be there before it enters its gate."""
        return self.visit.part.subscription.audience is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliver:
    """The use case of both queue triggers: first attempts and retries."""

    parts: Parts
    gates: Gates
    requeue: Requeue
    history: AttemptHistory
    clock: Clock
    jitter: Callable[[], float]
    new_lock: Callable[[], AbstractContextManager[object]]
    tokens: Tokens
    metrics: Metrics
    clock_records: ClockRecords
    replay: Callable[[ReplayStep], None]

    def run(self, body: bytes, end_invocation: Callable[[], None] = lambda: None) -> None:
        """
        Push what is due of one message; each part is settled on its own. Or do a replay's step.

        *end_invocation* is called when all that is left are slow pushes, once the host may delete
        its message: the invocation can end while they go on.

        Raises:
            MalformedMessage, StorageUnavailable: the app's fault; the host repeats the message.
        """
        messages = self._read(body)
        inbox: Inbox[Visit] = self.gates.threads.inbox()
        faults: _Faults = []
        courses: dict[Visit, _Course] = {}
        with_token: list[_Course] = []
        for message in self._quick_first(messages):
            try:
                part = self.parts.of(message)
                course = self._course(part, inbox) if part else None
            except Exception as fault:  # noqa: BLE001 - raised again when all parts have ended
                _log_fault(message, fault)
                faults.append((message, fault))
                continue
            if course:
                courses[course.visit] = course
                if course.fetches_token:
                    with_token.append(course)
                else:
                    self._safely(self._enter, course, courses, faults)
        for course in with_token:
            self._safely(self._enter, course, courses, faults)
        self._until_all_end(inbox, courses, faults, end_invocation)
        for failed, reason in faults:
            if len(messages) == 1 or not self._put_back(failed):
                raise reason

    def _read(self, body: bytes) -> Sequence[DeliveryMessage]:
        """Return what each subscription gets of a message; nothing if it has no deliveries."""
        messages = decode(body)
        if isinstance(messages, NewerMessage):
            self.requeue.put(Queue.RETRIES, body.decode(), NEWER_AGAIN_IN)
            return ()
        if isinstance(messages, ReplayStep):
            self.replay(messages)
            return ()
        if any(message.dead_letter for message in messages):
            raise MalformedMessage("dead letters are not delivered")
        bounds = Bounds(self.clock.now())
        messages = tuple(bounded_message(each, bounds) for each in messages)
        self.clock_records.bounded(bounds, messages[0].key)
        return messages

    def _quick_first(self, messages: Sequence[DeliveryMessage]) -> Sequence[DeliveryMessage]:
        """Let those that wait for storage keep no other from its endpoint."""
        return sorted(messages, key=self.parts.reads_storage) if len(messages) > 1 else messages

    def _put_back(self, message: DeliveryMessage) -> bool:
        """Store a part that failed as its subscription's own message, so that no other repeats."""
        due = self.clock.now() + FAILED_AGAIN_IN
        try:
            self.requeue.at_due(replace(message, due=due), patience=timedelta())
        except StorageUnavailable:
            return False
        return True

    def _course(self, part: Part, inbox: Inbox[Visit]) -> _Course:
        gate, ledger = self.gates.of(part.subscription), self._ledger(part)
        now = self.gates.monotonic()
        late = LateAnswers(
            requeue=self.requeue,
            ledger=ledger,
            lock=self.new_lock(),
            learn=partial(self.gates.succeeded_late, gate, gate.health, part.terms),
        )
        visit = Visit(
            part=part,
            health=gate.health,
            inbox=inbox,
            late=late,
            jitter=self.jitter(),
            since=now,
            stop_at=now + WAIT_FOR_SLOTS.total_seconds(),
        )
        settlement = Settlement(
            part=part,
            requeue=self.requeue,
            ledger=ledger,
            late=late,
            clock=self.clock,
            is_current=partial(self.parts.is_unchanged, part.subscription),
        )
        return _Course(
            gate=gate,
            visit=visit,
            settlement=settlement,
            handover=Handover(message=part.message, requeue=self.requeue, clock=self.clock),
            began_at=self.clock.now(),
        )

    def _ledger(self, part: Part) -> Ledger:
        return Ledger(
            key=part.message.key,
            lines=AttemptLines(part.message, part.subscription, part.terms),
            history=self.history.of(part.message, part.terms),
            metrics=self.metrics,
            clock=self.clock,
        )

    def _enter(self, course: _Course) -> bool:
        """Take a part to its gate; return whether it has ended already."""
        course.settlement.begin()
        part = course.visit.part
        if not part.to_push:
            self._end(course)
            return True
        if part.subscription.audience:
            self.tokens.fetch(part.subscription.audience)  # before a slot is taken
        self.gates.enter(course.gate, course.visit)
        return False

    def _until_all_end(
        self,
        inbox: Inbox[Visit],
        courses: dict[Visit, _Course],
        faults: _Faults,
        end_invocation: Callable[[], None],
    ) -> None:
        """Look after each part when its last answer is there, and after all of them at times."""
        for each in [course for course in courses.values() if course.visit.passes_by]:
            self._safely(self._hand_over, each, courses, faults)
        may_end_early, next_tick = True, self.gates.monotonic() + TICK
        while courses:
            may_end_early = may_end_early and not faults
            if may_end_early and all(each.handover.is_done for each in courses.values()):
                may_end_early = False
                end_invocation()
            answered = inbox.wait(TICK)
            if not answered or self.gates.monotonic() >= next_tick:
                answered, next_tick = list(courses), self.gates.monotonic() + TICK
            for visit in answered:
                if course := courses.get(visit):
                    self._safely(self._advance, course, courses, faults)

    def _safely(
        self,
        step: Callable[[_Course], bool],
        course: _Course,
        courses: dict[Visit, _Course],
        faults: _Faults,
    ) -> None:
        """Do one step of one part: it has ended if that says so, or fails, which stops no other."""
        try:
            has_ended = step(course)
        except Exception as fault:  # noqa: BLE001 - raised again when all parts have ended
            self.gates.abandon(course.gate, course.visit)
            course.visit.late.abandon()
            message = course.visit.part.message
            _log_fault(message, fault)
            if not course.handover.is_done:  # otherwise its copy brings it again
                faults.append((message, fault))
            has_ended = True
        if has_ended:
            del courses[course.visit]

    def _advance(self, course: _Course) -> bool:
        """Settle what is answered; return whether that was all."""
        gate, visit, settlement = course.gate, course.visit, course.settlement
        while visit.answers:
            settlement.take(visit.answers.popleft())
        self.gates.save(gate)
        if not visit.open and visit.behind_probe:
            self.gates.after_probe(gate, visit)
        elif not visit.open and not visit.answers:
            self._end(course)
            return True
        self.gates.set_pause(gate, self.parts.current_pause(visit.part.subscription))
        if self.gates.recheck(gate, visit):
            self._hand_over(course)
        course.handover.renew()
        settlement.flush(only_old=True)
        return False

    def _hand_over(self, course: _Course) -> bool:
        """Let a part go on without its message, unless its copy can't be stored now."""
        if not course.handover.is_done:
            course.settlement.flush()
            course.handover.begin(course.settlement.undecided)
        if course.handover.is_done:
            self.gates.leave(course.gate, course.visit)
        return False

    def _end(self, course: _Course) -> None:
        self.gates.leave(course.gate, course.visit)
        course.settlement.flush()
        course.handover.end()
        message, hold = course.visit.part.message, course.settlement.held_by
        telemetry.info(
            "delivery.run",
            topic=message.topic,
            subscription=message.subscription,
            **course.settlement.counts,
            held_until=hold.until if hold else None,
            held_because=hold.why if hold else None,
            put_back_because=course.settlement.put_back_because,
            seconds=round((self.clock.now() - course.began_at).total_seconds(), 3),
        )


def _log_fault(message: DeliveryMessage, fault: Exception) -> None:
    telemetry.error(
        "delivery.failed",
        topic=message.topic,
        subscription=message.subscription,
        detail=repr(fault),
    )
