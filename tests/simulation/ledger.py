"""Judges what became of each delivery by what was published, stored, pushed and answered."""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from pushgrid.testing.memory import START, MemoryStore
from pushgrid.testing.memory.faults import StoreRequest
from shared.adapters.sql.messages import parts_of
from shared.deadletter.record import namespace_reason
from shared.delivery.attempt_record import KEPT_FOR
from shared.delivery.delivery import Delivery, replay_job
from shared.delivery.delivery_profile import DeliveryProfile, Feature
from shared.delivery.messages.message import DeadLetterNote, MessagePart
from shared.delivery.policy import EndReason, EndState
from shared.delivery.profiles import PROFILES
from shared.engine.ports import Queue, Received, Table
from shared.engine.ports.settling import Ended
from shared.subscriptions.destination import EndpointType
from shared.subscriptions.subscription import DeadLetterDestination
from tests.simulation.host import POISON
from tests.simulation.kernel import Kernel, Process
from tests.simulation.plan import DAY, GIVES_UP, Plan

KNOWN_FOR = 10.0  # seconds: the bound of the cache, twice its period
SLOW = 1.0  # seconds: a request that takes longer is a fault
CLOCKS = 12.0  # seconds that no clock notices
READINGS = 2.0  # seconds by which two readings of a right clock may differ
RUN = 120.0  # seconds of a timer's run
READ_FOR = 6.0  # seconds from a read of the terms to the end that they justify, without a fault
LINE = 65.0  # seconds in an endpoint's line
PATIENCE = 150.0  # seconds for which a failing put is repeated
AHEAD = 60.0  # seconds by which a wrong clock may cut a wait: those that wake leaves to it
EARLY = 2.5  # seconds before its time in which a message counts as received in time
UNNOTICED = 10.0  # seconds
DOUBT = 1200.0  # seconds after a jump
LENGTHENED = 1.25  # by chance
DELAYED = 900.0  # seconds in which timers, lines and others of its request may delay a retry
AWAY = 4 * 3600.0  # seconds for which a dead letter's write is tried
_NUMBER = re.compile(r'"n": ?(\d+)')
_STATUS = {
    400: EndReason.BAD_REQUEST,
    401: EndReason.UNAUTHORIZED,
    403: EndReason.FORBIDDEN,
    404: EndReason.NOT_FOUND,
    413: EndReason.PAYLOAD_TOO_LARGE,
}
_TOLD = (str, int, bytes, timedelta, datetime, dict)  # of a request; others have no fixed text
# A namespace's outcome where no endpoint has answered.
_UNANSWERED = "Event was not acknowledged nor rejected."
_COPIED = (Queue.DELIVERIES, Queue.RETRIES, Queue.WAITING)


class Finding(NamedTuple):
    """What must not be."""

    kind: str
    at: float
    subscription: str
    number: int  # of the event; -1: none
    what: str


class Terms(NamedTuple):
    """What a stored subscription asks for."""

    generation: str
    kinds: frozenset[str] | None
    attempts: int | None
    time_to_live: float
    dead_letter: str | None  # account and container
    path: str  # of its endpoint's URL
    expires: float
    is_paused: bool
    is_open: bool  # its endpoint has consented


class Published(NamedTuple):
    """An event as its publisher has sent it."""

    topic: str
    kind: str
    at: float  # when its request began
    by: Process
    is_dated: bool = True  # by a clock that is right
    behind: float = 0.0  # seconds of that clock, as far as nobody notices


class Push(NamedTuple):
    """A request with events, as it arrives at an endpoint."""

    process: Process
    subscription: str
    job: str  # of a replay, or empty
    numbers: tuple[int, ...]  # of its events
    made: int  # attempts before, as it says
    path: str  # of its URL
    body: bytes


class Letter(NamedTuple):
    """What a dead letter says, and where it is written."""

    place: str  # account and container
    reason: str
    attempts: int
    outcome: str | None  # of the last one


class Failure(NamedTuple):
    """The end of a push that its process takes for a failure."""

    at: float
    status: int
    is_dated: bool  # by a clock that is right


@dataclass(slots=True)
class Entry:
    """One delivery: an event for a subscription, by a replay or not."""

    subscription: str
    number: int
    job: str
    is_promised: bool = False
    pushes: int = 0
    failures: defaultdict[int, list[Failure]] = field(default_factory=lambda: defaultdict(list))
    followed: defaultdict[int, list[Failure]] = field(default_factory=lambda: defaultdict(list))
    # By attempts made: those that no push has followed yet, or one has; and with which status.
    statuses: defaultdict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    repeats: int = 0  # pushes that follow no failure of their own
    ends: int = 0
    copies: int = 0  # causes that had it: it may end, and be pushed, once more for each
    unheard: int = 0  # acceptances that nobody knows: it may end once more for each
    letters: list[Letter] = field(default_factory=list)  # that were stored, to be written
    records: int = 0  # in blobs of dead letters
    put_at: float = -1.0  # first

    @property
    def has_ended(self) -> bool:
        return self.ends > self.copies + self.unheard


class Ledger:
    """Keeps entries, and finds what no rule allows."""

    store: MemoryStore  # set by whoever makes both

    def __init__(self, kernel: Kernel, plan: Plan, *, tells: bool) -> None:
        self._kernel, self._settings = kernel, plan.settings
        self.findings: list[Finding] = []
        self.seen = Counter[str]()  # of what operators do: what took effect
        self.entries: dict[tuple[str, int, str], Entry] = {}
        self._of_event: defaultdict[tuple[str, int], list[Entry]] = defaultdict(list)
        self.published: dict[int, Published] = {}
        self.topics: dict[str, tuple[str, float]] = {}  # profile, and the longest time to live
        self.digest = hashlib.blake2b(digest_size=16)
        self.story: list[tuple[float, str, frozenset[int]]] | None = [] if tells else None
        self._parts = lru_cache(maxsize=4096)(self._read_parts)
        self._processes: dict[str, Process] = {}
        self._is_trusted: dict[Process, Callable[[], bool]] = {}
        self._versions: defaultdict[str, list[tuple[float, Terms | None]]] = defaultdict(list)
        self._reads: defaultdict[tuple[str, str], list[float]] = defaultdict(list)  # uncached
        self._topic_of: dict[str, str] = {}
        self._faults: dict[Process, float] = {}  # when it had the last one
        self._frozen: dict[Process, tuple[float, float]] = {}  # since and until when, last
        self._jumps: dict[Process, float] = {}
        self._told = set[Process]()  # that storage has told its time
        self._unnoticed = 0.0  # seconds by which clocks differ
        self._ahead: defaultdict[Process, float] = defaultdict(float)  # seconds of its clock
        self._put_right = set[Process]()  # their clocks were far off
        self._holders: dict[str, tuple[Process, float]] = {}  # of messages
        self._held: dict[str, float] = {}  # until when each subscription is or was, so far
        # By place and folder, and path: when it was first written, and its events.
        self._blobs_of: defaultdict[tuple[str, str], dict[str, tuple[float, list[int]]]]
        self._blobs_of = defaultdict(dict)
        self._jobs: dict[str, float] = {}  # when each was first stored

    # ── What happens ──

    def note(self, text: str, numbers: Iterable[int] = ()) -> None:
        now = self._kernel.now
        self.digest.update(f"{now:.6f} {text}\n".encode())
        if self.story is not None:
            self.story.append((now, text, frozenset(numbers)))

    def find(self, kind: str, what: str, of: Entry | None = None) -> None:
        name, number = (of.subscription, of.number) if of else ("", -1)
        self.findings.append(Finding(kind, self._kernel.now, name, number, what))
        self.note(f"FOUND {kind}: {name} {what}", [number])

    def began(self, process: Process, skew: float, is_trusted: Callable[[], bool]) -> None:
        """Enter a process, what its clock is off by, and how to tell whether that is settled."""
        self._processes[process.name] = process
        self._is_trusted[process] = is_trusted
        self._jumps[process] = self._kernel.now if abs(skew) > UNNOTICED else -DOUBT
        self._differs_by(process, skew)

    def fault(self, process: Process, what: str) -> None:
        """Enter that a process has a fault that may repeat what it has in hand."""
        self._faults[process] = self._kernel.now
        self.note(f"{process.name} {what}")

    def frozen(self, process: Process, seconds: float) -> None:
        self._frozen[process] = self._kernel.now, 1e12
        self.fault(process, f"is frozen for {seconds} s")

    def thawed(self, process: Process) -> None:
        self._frozen[process] = self._frozen[process][0], self._kernel.now
        self.fault(process, "goes on")

    def jumped(self, process: Process, by: float) -> None:
        self._jumps[process] = self._kernel.now
        self._differs_by(process, by)
        self.note(f"{process.name} its clock jumps by {by:+.0f} s")

    def sent(self, number: int, event: Published) -> None:
        behind = self._unnoticed_of(event.by, -1) if event.by in self._told else 1e9
        is_dated = self._is_right(event.by)
        self.published[number] = event._replace(is_dated=is_dated, behind=behind)

    def answered(self, numbers: Sequence[int], status: int) -> None:
        """Enter the answer to a publish request: 200 promises."""
        first = self.published[numbers[0]]
        self.note(f"{first.by.name} answers {status} to {first.topic}", numbers)
        if status != 200:
            return
        for name, topic in self._topic_of.items():
            if topic != first.topic:
                continue
            versions = [*self._standing(name, first.at - KNOWN_FOR - GIVES_UP - 1)]
            for number in numbers:
                if all(self._matches(each, self.published[number]) for each in versions):
                    self._entry(name, number, "").is_promised = True

    # ── What endpoints hear ──

    def pushed(self, push: Push) -> None:
        told = f"{push.subscription}{push.path} {push.numbers} {_hash(push.body)}"
        self.note(f"{push.process.name} pushes to {told}", push.numbers)
        for number in push.numbers:
            self._judge_push(push, number)

    def accepted(self, push: Push, *, is_known: bool) -> None:
        known = "" if is_known else ", which nobody knows"
        self.note(f"{push.subscription} accepts {push.numbers}{known}", push.numbers)
        for number in push.numbers:
            entry = self._of_push(push, number)
            entry.unheard += not is_known
            self._end(entry, "delivered")

    def failed(self, push: Push, status: int) -> None:
        self.note(f"{push.subscription} answers {status} to {push.numbers}", push.numbers)
        for number in push.numbers:
            entry = self._of_push(push, number)
            failure = Failure(self._kernel.now, status, self._is_right(push.process))
            entry.failures[push.made + 1].append(failure)
            entry.statuses[push.made + 1].add(status)

    def ended(self, process: str, end: Ended) -> None:
        """Enter an end that the app tells, once what follows is stored."""
        name, number = end.key.subscription.lower(), self._number_of(end.delivery)
        self.note(f"{process} ends {name} {number}: {end.state} {end.reason}", [number])
        if end.reason is EndReason.PAYLOAD_MISSING:
            self.find("payload missing", f"an event of {name}")
            return
        entry = self._entry(name, number, self._job_of(end.delivery))
        if end.terms:
            given = (end.terms.max_attempts, end.terms.time_to_live.total_seconds())
            standing = self._standing(name, self._before_now(self._processes[process]))
            if given not in [(e.attempts, e.time_to_live) for e in standing if e]:
                self.find("wrong end", f"{end.reason} by terms of another time", entry)
        if end.state is EndState.DROPPED:
            self._judge_end(entry, end.reason, self._processes[process], is_drop=True)
            self._end(entry, f"dropped: {end.reason}")

    # ── What storage hears ──

    def took_effect(  # noqa: C901 - a case for each kind of request
        self, request: StoreRequest, result: Any, *, is_known: bool
    ) -> None:
        """Enter an effect; who asks for it does not know of a second or a late one."""
        self.note(_shown(request))
        given: Any = request.arguments
        by = self._processes[request.process]
        match f"{request.port}.{request.method}":
            case "documents.put" | "documents.delete":
                document = given[3] if request.method == "put" else None
                self._documented(given[0], given[1], given[2], document)
            case "documents.get" if given[0] is Table.EVENT_SUBSCRIPTIONS:
                self._reads[request.process, given[2].lower()].append(self._kernel.now)
            case "queues.put":
                self._put(by, *given[:2])
            case "queues.receive":
                self._received(by, Queue(given[0]), result)
            case "dead_letters.write" if result is None:
                self.find("wrong end", f"there is no container {given[0]}")
            case "dead_letters.write":
                self._buried(*given[:3])
            case "dead_letters.write_poison":
                self.find("poison", given[0])
            case "payloads.write":
                self._judge_payload(by, given[1])
            case "payloads.delete_expired" | "attempts.delete_before":
                self._judge_retention(request.port, given[0])
        if not is_known:
            self._unknown(request, result, "it is stored twice, or its answer was lost")

    def was_answered(self, request: StoreRequest, seconds: float, *, is_timed: bool) -> None:
        process = self._processes[request.process]
        if is_timed:
            self._told.add(process)
        if seconds > SLOW:
            self.fault(process, f"waits {seconds:.0f} s for {request.port}.{request.method}")

    def was_not_answered(self, request: StoreRequest, result: Any) -> None:
        """Enter that an answer is lost; *result* is ``None`` if there is, or was, no effect."""
        process = self._processes[request.process]
        self.fault(process, f"has no answer to {request.port}.{request.method}")
        if result is not None:
            self._unknown(request, result, "its answer was lost")

    def _unknown(self, request: StoreRequest, result: Any, why: str) -> None:
        """Enter an effect that no process knows of."""
        if (request.port, request.method) == ("queues", "put"):
            self._copied(str(request.arguments[1]), why)
        elif (request.port, request.method) == ("queues", "receive"):
            for message in result:  # which nobody gets
                self._holders.pop(message.receipt.message_id, None)

    def _documented(
        self, table: Table, topic: str, name: str, document: Mapping[str, Any] | None
    ) -> None:
        if table is Table.EVENT_SUBSCRIPTIONS:
            self._stored(topic, name, document)
        elif table is Table.ENDPOINT_HEALTH:
            held = (document or {}).get("heldUntil") if (document or {}).get("hold") else None
            until = _seconds(held) if held else self._kernel.now
            self._held[name.lower()] = max(until, self._kernel.now)
        elif table is Table.REPLAYS and topic == "job" and document:
            self._judge_job(document)

    def _stored(self, topic: str, name: str, document: Mapping[str, Any] | None) -> None:
        self._topic_of[name.lower()] = topic.lower()
        terms = self._terms(topic.lower(), document) if document else None
        versions = self._versions[name.lower()]
        self._count_change(versions[-1][1] if versions else None, terms)
        versions.append((self._kernel.now, terms))

    def _count_change(self, old: Terms | None, new: Terms | None) -> None:
        if old is None or new is None or old.generation != new.generation:
            self.seen["deleted"] += old is not None
        elif old.is_paused != new.is_paused:
            self.seen["paused" if new.is_paused else "resumed"] += 1
        elif old.path != new.path:
            self.seen["moved"] += 1
        else:
            self.seen["updated"] += old != new

    def _put(self, by: Process, queue: Queue, text: str) -> None:
        if queue in (Queue.DELIVERIES_POISON, Queue.RETRIES_POISON):
            self.find("poison", f"a message moves to {queue}")
        for part, numbers in self._parts(text):
            self.note(f"  to {queue} for {part.subscription}: {numbers}", numbers)
            jobs = [self._job_of(each) for each in part.deliveries]
            seen = Counter(zip(numbers, jobs, strict=True))
            for number, job, each in zip(numbers, jobs, part.deliveries, strict=True):
                entry = self._entry(part.subscription.lower(), number, job)
                known = self._of_event[part.subscription.lower(), number]
                most = sum(one.records for one in known) if job else 1  # each is replayed
                if number >= 0 and seen[number, job] > most:
                    self.find("repeated", "twice in one message", entry)
                if entry.put_at < 0:
                    entry.put_at = self._kernel.now
                if job and not entry.is_promised:
                    self.seen["replayed"] += 1
                    entry.is_promised = True
                    self._judge_replay(entry)
                    entry.copies = max(most - 1, 0)
                if part.dead_letter:
                    self._judge_letter(entry, part.dead_letter, each, by)
                    self._judge_end(entry, part.dead_letter.reason, by, is_drop=False)

    def _received(self, by: Process, queue: Queue, messages: Sequence[Received]) -> None:
        for message in messages:
            identity = message.receipt.message_id
            holder = self._holders.pop(identity, None)
            if by.is_alive:  # else nobody gets it
                self._holders[identity] = (by, self._kernel.now)
            for part, numbers in self._parts(message.text):
                told = f"  {queue} gives {part.subscription} {numbers} #{message.count}"
                self.note(told, numbers)
            if message.count > 1:
                self._judge_return(queue, message, holder)

    def _judge_return(
        self, queue: Queue, message: Received, holder: tuple[Process, float] | None
    ) -> None:
        began = GIVES_UP if queue in POISON else RUN
        if holder and self._faults.get(holder[0], -RUN) < holder[1] - began:
            parts = [(part.subscription, n) for part, n in self._parts(message.text)]
            self.find("comes again", f"{queue} {parts} without a fault")
        if holder and queue in _COPIED:
            self._copied(message.text, "its message comes again")

    def _buried(self, to: DeadLetterDestination, path: str, body: bytes) -> None:
        folder = path.rsplit("/", 5)[0]
        name, records = folder.rpartition("/")[2].lower(), json.loads(body)
        numbers = [int(_found(each)) for each in records]
        self._blobs_of[_place(to), folder].setdefault(path, (self._kernel.now, numbers))
        for record, number in zip(records, numbers, strict=True):
            letter = Letter(_place(to), *_told(record))
            known = self._of_event[name, number]
            fitting = [each for each in known if letter in each.letters]
            waiting = (each for each in fitting or known if len(each.letters) > each.records)
            entry = next(waiting, None) or self._entry(name, number, "")
            if not fitting:
                self.find("wrong record", f"{letter}, not {entry.letters}", entry)
            entry.records += 1
            self.note(f"  record of {name} {number}", [number])
            self._end(entry, "dead-lettered")

    # ── Judgements ──

    def _judge_push(self, push: Push, number: int) -> None:
        name, now = push.subscription, self._kernel.now
        entry = self._of_push(push, number)
        event = self.published.get(number)
        if event is None or not self._may_match(name, event, entry):
            self.find("stray", "no filter wants it", entry)
            return
        if entry.has_ended:
            self.find("repeated", "pushed after its end", entry)
        standing = [*self._standing(name, now - self._slack(push.process))]
        published = self._standing(name, event.at - KNOWN_FOR - GIVES_UP - 1)
        if any(all(e and e.is_paused for e in versions) for versions in (standing, published)):
            self.find("while paused", "pushed in a pause that its process knows", entry)
        self._judge_owner(push, entry)
        self._judge_repeat(push, entry, event)
        self._judge_life(push, entry, event, [each for each in standing if each])

    def _judge_owner(self, push: Push, entry: Entry) -> None:
        """Judge a push by the subscriptions that its process may know."""
        name, since = push.subscription, self._kernel.now - LINE - self._slack(push.process)
        owners = [*filter(None, self._standing(name, since))]
        if not any(self._was_there(name, each.generation, entry.put_at) for each in owners):
            self.find("deleted", "pushed after its subscription was deleted", entry)
            return
        has_expired = all(each.expires < since - self._unnoticed for each in owners)
        if has_expired and self._is_right(push.process):
            self.find("deleted", "pushed after its subscription has expired", entry)
        if push.path not in {each.path for each in owners}:
            self.find("stray", f"pushed to {push.path}: its endpoint was moved", entry)

    def _judge_life(
        self, push: Push, entry: Entry, event: Published, limits: Sequence[Terms]
    ) -> None:
        most = max((each.attempts or 10**6 for each in limits), default=10**6)
        entry.pushes += 1
        if push.made >= most:
            self.find("too often", f"push {push.made + 1} of {most}", entry)
        longest = max((each.time_to_live for each in limits), default=1e9)
        is_dated = event.is_dated and self._is_right(push.process) and not entry.job
        age = self._kernel.now - entry.put_at
        if is_dated and age > longest + LINE + self._slack(push.process) + 60:
            self.find("too old", f"{age:.0f} s of {longest:.0f}", entry)

    def _judge_repeat(self, push: Push, entry: Entry, event: Published) -> None:
        """Judge a push by the failure that it follows; each but the first follows one."""
        failures = entry.failures[push.made]
        if failures:
            self._judge_late(entry, event, failures[-1], push.made)
            self._judge_wait(entry, event, failures, push.made)
            return
        is_first = not (push.made or entry.pushes)
        entry.repeats += not is_first
        is_known = len(self._of_event[entry.subscription, entry.number]) == 1
        counts_more = self._settings["probation_counts_attempt"]
        if entry.repeats > entry.copies and is_known and not counts_more:
            self.find("repeated", f"pushed after {push.made} attempts again", entry)

    def _judge_replay(self, entry: Entry) -> None:
        """Judge whether a replay has a record that no other one has sent."""
        known = self._of_event[entry.subscription, entry.number]
        records = sum(each.records for each in known)
        if sum(bool(each.job) for each in known) > records:
            self.find("repeated", "replayed by two jobs", entry)

    def _judge_job(self, job: Mapping[str, Any]) -> None:
        """Judge whether a finished job has sent what was there when it began."""
        began = min(_seconds(job["started_at"]), self._jobs.setdefault(job["id"], self._kernel.now))
        if job["state"] != "Done" or job["faults"]:
            return
        for _, subscription, container, account, folder in job["sources"]:
            name = subscription.lower()
            place = _place(DeadLetterDestination(container=container, account=account))
            blobs = self._blobs_of[place, folder].values()
            there = Counter(n for at, numbers in blobs if at < began - CLOCKS for n in numbers)
            for number, records in there.items():
                sent = [each for each in self._of_event[name, number] if each.job]
                if sum(1 + each.copies for each in sent) < records:
                    entry = self._entry(name, number, job["id"])
                    self.find("lost", f"of {records} records {len(sent)} were replayed", entry)

    def _judge_retention(self, port: str, until: Any) -> None:
        now = START + timedelta(seconds=self._kernel.now + CLOCKS)
        latest: Any = now if isinstance(until, datetime) else now.date() - KEPT_FOR
        if until > latest:
            self.find("deleted early", f"{port} until {until}")

    def _judge_payload(self, by: Process, expires: datetime) -> None:
        """Judge whether a payload outlives the messages that name it."""
        left = (expires - START).total_seconds() - self._kernel.now
        if left < DAY and self._is_right(by):
            self.find("deleted early", f"a payload is kept for {left:.0f} s")

    def _judge_wait(
        self, entry: Entry, event: Published, failures: list[Failure], made: int
    ) -> None:
        """Judge a push by the failure that it may follow soonest: one of several, with copies."""
        profile = self._profile(event.topic)
        steps, tail = profile.schedule.steps, profile.schedule.tail
        step = steps[made - 1] if made <= len(steps) else tail
        rules = profile.endpoints[EndpointType.WEBHOOK]

        def due(failure: Failure) -> float:
            failed_at, status, is_dated = failure
            if step is None or not is_dated:
                return 0.0
            at = failed_at + step.total_seconds()
            if profile.schedule.by_age:
                at = min(at, event.at + step.total_seconds())
            least = rules.minimum_delay.get(status, rules.other_minimum_delay)
            return max(at, failed_at + least.total_seconds()) if status else at

        failure = min(failures, key=due)
        now, followed = self._kernel.now, entry.followed[made]
        # A copy may follow a failure that was followed, or be counted as it is held.
        may_follow = any(due(each) <= now for each in followed)
        may_follow = may_follow or self._settings["probation_counts_attempt"]
        is_copy = entry.repeats < entry.copies and may_follow
        if due(failure) > now and is_copy:
            entry.repeats += 1  # the retry of that one was stored twice
            return
        failures.remove(failure)
        followed.append(failure)
        if step is None and failure.is_dated:
            if not self._unnoticed:
                self.find("too often", "the schedule has no further step", entry)
            return
        early = due(failure) - now
        doubt = AHEAD if not all(map(self._is_right, self._processes.values())) else 0.0
        if early > EARLY + self._unnoticed + doubt:
            self.find("early", f"{early:.1f} s before its step", entry)

    def _judge_late(self, entry: Entry, event: Published, failure: Failure, made: int) -> None:
        """Judge whether a retry comes long after its time though nothing delays it."""
        name, now, profile = entry.subscription, self._kernel.now, self._profile(event.topic)
        steps = profile.schedule.steps
        step = steps[made - 1] if made <= len(steps) else profile.schedule.tail or steps[-1]
        rules = profile.endpoints[EndpointType.WEBHOOK]
        least = rules.minimum_delay.get(failure.status, rules.other_minimum_delay)
        longest = max([step, least, *profile.probation.values()]).total_seconds()
        # An endpoint may double a wait, which chance has lengthened; a hold may follow it.
        due = max(failure.at + longest * 2 * LENGTHENED, self._held.get(name, 0.0))
        has_fault = max(self._faults.values(), default=-1e9) > failure.at - DOUBT
        was_paused = any(e is None or e.is_paused for e in self._standing(name, failure.at))
        is_right = all(map(self._is_right, self._processes.values()))
        if now > due + DELAYED and is_right and not has_fault and not was_paused:
            self.find("late", f"{now - failure.at:.0f} s after a failure of {longest:.0f}", entry)

    def _judge_end(self, entry: Entry, reason: str, by: Process, *, is_drop: bool) -> None:
        """Judge the grounds of an end by the terms that stood just then."""
        name, now = entry.subscription, self._kernel.now
        read_at = self._read_at(by, name)
        if read_at is None and reason != EndReason.DESTINATION_UNAVAILABLE:
            self.find("wrong end", f"{reason}, and its terms were not read", entry)
            return
        standing = [*self._standing(name, now if read_at is None else read_at)]
        terms = [each for each in standing if each]
        event = self.published[entry.number]
        rules = self._profile(event.topic).endpoints[EndpointType.WEBHOOK]
        known = {status for each in entry.statuses.values() for status in each}
        age = now - event.at + READINGS + event.behind + self._unnoticed_of(by, 1)
        grounds = {
            EndReason.MAX_ATTEMPTS: any(entry.pushes >= (each.attempts or 10**6) for each in terms)
            or self._settings["probation_counts_attempt"],
            EndReason.TIME_TO_LIVE: bool(entry.job)
            or any(age >= each.time_to_live for each in terms),
            EndReason.SUBSCRIPTION_DELETED: self._was_deleted_since(name, event.at),
            EndReason.SUBSCRIPTION_EXPIRED: any(each.expires <= now + CLOCKS for each in terms),
            EndReason.PROBATION: self._settings["probation_ends_events"],
            EndReason.DESTINATION_UNAVAILABLE: now - event.at > AWAY,
            EndReason.CLIENT_ERROR: bool(rules.final_failures) and 0 in known,
        }
        final = {_STATUS[each] for each in known & rules.never_retried}
        if not grounds.get(EndReason(reason), EndReason(reason) in final):
            self.find("wrong end", f"{reason} after {entry.pushes} pushes", entry)
        by_terms = EndReason(reason) in {EndReason.MAX_ATTEMPTS, EndReason.TIME_TO_LIVE, *final}
        features = self._profile(event.topic).features
        is_kept = all(each.dead_letter is not None for each in terms)
        if is_drop and by_terms and terms and is_kept and Feature.DEAD_LETTERS in features:
            self.find("wrong end", f"dropped ({reason}), not dead-lettered", entry)

    def _judge_letter(
        self, entry: Entry, note: DeadLetterNote, delivery: Delivery, by: Process
    ) -> None:
        """Judge what is to be written about an end, and enter it."""
        name, last = entry.subscription, delivery.last
        is_of_namespace = self.topics[self.published[entry.number].topic][0] == "ns"
        reason = namespace_reason(note.reason) if is_of_namespace else note.reason
        outcome = last and (last.status or not is_of_namespace) and last.outcome
        letter = Letter(_place(note.destination), reason, delivery.attempts, outcome or None)
        entry.letters.append(letter)
        standing = self._standing(name, self._before_now(by))
        if letter.place not in {each and each.dead_letter for each in standing}:
            self.find("wrong record", f"to {letter.place}, which its terms do not name", entry)
        is_known = len(self._of_event[name, entry.number]) == 1
        counts_more = self._settings["probation_counts_attempt"]
        if not entry.pushes or counts_more or note.reason is EndReason.PROBATION or not is_known:
            return  # Its last outcome is no push, or of which replay a push was is not known.
        answers = entry.statuses.get(delivery.attempts, set())
        status = (last and last.status) or 0
        if status not in answers and (delivery.attempts or not entry.copies):
            told = f"{status} after {delivery.attempts} attempts, not {dict(entry.statuses)}"
            self.find("wrong record", told, entry)

    def _end(self, entry: Entry, how: str) -> None:
        entry.ends += 1
        if entry.ends > 1 + entry.copies + entry.unheard:
            self.find("repeated", f"end {entry.ends}: {how}", entry)

    def close(self) -> None:
        """Find what has no end."""
        for entry in self.entries.values():
            if entry.is_promised and not entry.ends:
                self.find("lost", f"{entry.pushes} pushes {entry.job}", entry)

    # ── Parts of the above ──

    def _entry(self, name: str, number: int, job: str) -> Entry:
        key = (name, number, job)
        if key not in self.entries:
            self.entries[key] = entry = Entry(name, number, job)
            self._of_event[name, number].append(entry)
        return self.entries[key]

    def _of_push(self, push: Push, number: int) -> Entry:
        """Return the entry of an event; a request of several replays names none."""
        entry = self.entries.get((push.subscription, number, push.job))
        if entry and (push.job or not entry.has_ended):
            return entry
        found = self._of_event[push.subscription, number] if not push.job else []
        is_open = (each for each in found if not each.has_ended)
        return next(is_open, entry) or self._entry(push.subscription, number, push.job)

    def _copied(self, text: str, why: str) -> None:
        for part, numbers in self._parts(text):
            self.note(f"  {part.subscription} {numbers} may be repeated: {why}", numbers)
            for number, delivery in zip(numbers, part.deliveries, strict=True):
                job = self._job_of(delivery)
                self._entry(part.subscription.lower(), number, job).copies += 1

    def _read_parts(self, text: str) -> Sequence[tuple[MessagePart, tuple[int, ...]]]:
        return [(part, tuple(map(self._number_of, part.deliveries))) for part in parts_of(text)]

    @staticmethod
    def _job_of(delivery: Delivery) -> str:
        return replay_job(delivery.origin.publish_id) or ""

    def _number_of(self, delivery: Delivery) -> int:
        text, origin = delivery.text, delivery.origin
        if text is None:
            lines = self.store.payloads.blobs.get(origin.payload or "", ())
            place = origin.first_line + delivery.position
            text = lines[place] if place < len(lines) else ""
        found = _NUMBER.search(text)
        return int(found[1]) if found else -1

    def _standing(self, name: str, since: float) -> Iterator[Terms | None]:
        """Yield what stood in the store at any time since then."""
        versions = self._versions[name]
        for place in range(len(versions) - 1, -1, -1):
            at, terms = versions[place]
            yield terms
            if at <= since:
                return
        yield None

    def _was_there(self, name: str, generation: str, at: float) -> bool:
        """Tell whether a subscription of that generation was stored by then."""
        versions = self._versions[name]
        return any(
            each and each.generation == generation and since <= at for since, each in versions
        )

    def _was_deleted_since(self, name: str, since: float) -> bool:
        found = {each and each.generation for each in self._standing(name, since)}
        return None in found or len(found) > 1

    def _matches(self, terms: Terms | None, event: Published) -> bool:
        self.seen["expired"] += terms is not None and terms.expires <= event.at
        if terms is None or not terms.is_open or terms.expires <= self._kernel.now + 30:
            return False
        return terms.kinds is None or event.kind in terms.kinds

    def _may_match(self, name: str, event: Published, entry: Entry) -> bool:
        if entry.job or entry.pushes:
            return True
        if self._topic_of.get(name) != event.topic:
            return False
        standing = (each for each in self._standing(name, event.at - 60) if each)
        return any(each.kinds is None or event.kind in each.kinds for each in standing)

    def _is_right(self, process: Process) -> bool:
        """Tell whether a process goes by its clock, and has for a while."""
        has_jumped = self._jumps[process] > self._kernel.now - DOUBT
        return self._is_trusted[process]() and not has_jumped

    def _unnoticed_of(self, process: Process, sign: int) -> float:
        """Return by what its clock is ahead (1) or behind (-1), as far as nobody notices."""
        if process in self._put_right:
            return UNNOTICED  # which storage's time and it may differ by
        return min(max(sign * self._ahead[process], 0.0), UNNOTICED)

    def _differs_by(self, process: Process, seconds: float) -> None:
        """Enter by what a clock is wrong; up to ten seconds nobody notices."""
        if abs(seconds) <= UNNOTICED:
            self._ahead[process] += seconds
        else:
            self._put_right.add(process)
        self._unnoticed += min(abs(seconds), UNNOTICED)

    def _before_now(self, process: Process, calm: float = 20.0) -> float:
        """Return since when terms may count for what a process stores now."""
        long_ago = self._kernel.now - PATIENCE - 60
        has_fault = any(at >= long_ago for at in self._faults.values())
        since = long_ago if has_fault else self._kernel.now - calm
        froze, thawed = self._frozen.get(process, (0.0, -1.0))
        return froze - PATIENCE - 60 if thawed >= since else since

    def _read_at(self, process: Process, name: str) -> float | None:
        """Return when a process may have read the terms of what it ends now, uncached."""
        since = self._before_now(process, READ_FOR)
        reads = self._reads[process.name, name]
        place = bisect_left(reads, since)
        return reads[place] if place < len(reads) else None

    def _slack(self, process: Process) -> float:
        """Return for how long a process may go by what it knew."""
        is_calm = self._faults.get(process, -1e9) < self._kernel.now - LINE
        return KNOWN_FOR + (2 if is_calm else 3 * GIVES_UP + 5)

    def _profile(self, topic: str) -> DeliveryProfile:
        return PROFILES[self.topics[topic][0]]

    def _terms(self, topic: str, document: Mapping[str, Any]) -> Terms:
        given = document["properties"]
        profile = self._profile(topic)
        chosen = given.get("retryPolicy") or {}
        limits = profile.limits
        attempts = limits.attempts and (chosen.get("maxDeliveryAttempts") or limits.attempts[0])
        minutes = chosen.get("eventTimeToLiveInMinutes")
        longest = minutes * 60 if minutes else limits.time_to_live[0].total_seconds()
        expires = given.get("expirationTimeUtc")
        kinds = (given.get("filter") or {}).get("includedEventTypes")
        dead = given.get("deadLetterDestination")
        return Terms(
            generation=document["generation"],
            kinds=frozenset(kinds) if kinds else None,
            attempts=attempts,
            time_to_live=min(longest, self.topics[topic][1]),
            dead_letter=_place_of(dead["properties"]) if dead else None,
            path=urlsplit(given["destination"]["properties"]["endpointUrl"]).path,
            expires=_seconds(expires) if expires else 1e12,
            is_paused=bool(document.get("pause")),
            is_open="validation" not in document,
        )


def _found(record: Any) -> str:
    found = _NUMBER.search(json.dumps(record))
    return found[1] if found else "-1"


def _seconds(time: str) -> float:
    return (datetime.fromisoformat(time) - START).total_seconds()


def _place(of: DeadLetterDestination) -> str:
    return f"{of.account or MemoryStore.account}/{of.container}"


def _place_of(properties: Mapping[str, str]) -> str:
    return f"{properties['resourceId'].rpartition('/')[2]}/{properties['blobContainerName']}"


def _told(record: Mapping[str, Any]) -> tuple[str, int, str | None]:
    """Return what a record says: reason, attempts, and the outcome of the last."""
    told = record.get("deadLetterProperties") or {key.lower(): record[key] for key in record}
    outcome = told.get("deliveryresult", told.get("lastdeliveryoutcome"))
    known = None if outcome == _UNANSWERED else outcome
    return told["deadletterreason"], told["deliveryattempts"], known


def _hash(of: bytes) -> str:
    return hashlib.blake2b(of, digest_size=4).hexdigest()


def _shown(request: StoreRequest) -> str:
    texts = [str(each) for each in request.arguments if isinstance(each, _TOLD)]
    shown = (each if len(each) < 60 else f"{each[:24]}…{_hash(each.encode())}" for each in texts)
    return f"{request.process} {request.port}.{request.method} {' '.join(shown)}"
