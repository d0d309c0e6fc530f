"""The ports in memory; tests/contract holds them to what the adapters do."""

from __future__ import annotations

import contextlib
import json
import threading
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from shared.delivery.attempt_record import AttemptRecord
from shared.engine.ports import PushResult, Queue, Receipt, Received, Resource, Table
from shared.errors import Conflict, InvalidDocument, StorageUnavailable
from shared.http import Answered, Exchange, Late, OutboundRequest
from shared.metrics import DEFINITIONS, CountRow, Counts, Metric, Span, added

T = TypeVar("T")
R = TypeVar("R", bound=PushResult)

START = datetime(2026, 2, 9, 12, 0, tzinfo=UTC)


class FakeClock:
    """A clock that stands still until it is advanced."""

    def __init__(self, start: datetime = START) -> None:
        self._now = start

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        """Return seconds since some moment in the past, as `time.monotonic` does."""
        return (self._now - datetime(2000, 1, 1, tzinfo=UTC)).total_seconds()

    def advance(self, by: timedelta) -> None:
        self._now += by


class Faulty:
    """Fails when told to, before its work (the usual case) or after it (an answer was lost)."""

    def __init__(self) -> None:
        self._before: Counter[str] = Counter()
        self._after: Counter[str] = Counter()
        self._lock = threading.RLock()

    def fail_next(self, method: str, times: int = 1, *, after: bool = False) -> None:
        """Raise ``StorageUnavailable`` from the next *times* calls of *method*."""
        getattr(self, method)  # a test that names it wrongly should not pass
        (self._after if after else self._before)[method] += times

    @contextlib.contextmanager
    def _at_work(self, method: str) -> Iterator[None]:
        with self._lock:
            _count_down(self._before, method)
            yield
            _count_down(self._after, method)


def _count_down(faults: Counter[str], method: str) -> None:
    if faults[method] > 0:
        faults[method] -= 1
        raise StorageUnavailable


@dataclass(slots=True)
class Stored:
    """A message on a queue, from *visible_at* on visible."""

    text: str
    visible_at: datetime
    identity: str = field(default_factory=lambda: uuid.uuid4().hex)
    receipt: str = field(default_factory=lambda: uuid.uuid4().hex)


class MemoryQueues(Faulty):
    """Sender and Receiver."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock
        self.stored: defaultdict[Queue, list[Stored]] = defaultdict(list)

    def texts(self, queue: Queue) -> list[str]:
        """Return the texts of all messages, hidden ones included, in the order of their puts."""
        return [message.text for message in self.stored[queue]]

    def waits(self, queue: Queue) -> list[timedelta]:
        """Return for how long from now each message stays hidden, in the order of their puts."""
        now = self._clock.now()
        return [max(timedelta(), message.visible_at - now) for message in self.stored[queue]]

    def put(self, queue: Queue, text: str, visible_in: timedelta = timedelta()) -> Receipt:
        with self._at_work("put"):
            message = Stored(text, self._in(visible_in))
            self.stored[queue].append(message)
            return Receipt((message.identity, message.receipt))

    def put_all(self, queue: Queue, texts: Sequence[str]) -> None:
        with self._at_work("put_all"):
            for text in texts:
                self.put(queue, text)

    def take_back(self, queue: Queue, receipt: Receipt) -> bool:
        with self._at_work("take_back"):
            if held := self._held(queue, receipt):
                self.stored[queue].remove(held)
            return held is not None

    def replace(
        self, queue: Queue, receipt: Receipt, text: str, visible_in: timedelta
    ) -> Receipt | None:
        with self._at_work("replace"):
            if (held := self._held(queue, receipt)) is None:
                return None
            held.text = text
            self._hide(held, visible_in)
            return Receipt((held.identity, held.receipt))

    def receive(self, queue: Queue, hidden_for: timedelta) -> Sequence[Received]:
        with self._at_work("receive"):
            now = self._clock.now()
            visible = [message for message in self.stored[queue] if message.visible_at <= now][:32]
            for message in visible:
                self._hide(message, max(hidden_for, timedelta(seconds=1)))
            return [
                Received(text=message.text, handle=(message.identity, message.receipt))
                for message in visible
            ]

    def delete(self, queue: Queue, message: Received) -> None:
        with self._at_work("delete"):
            if held := self._held(queue, message.handle):
                self.stored[queue].remove(held)

    def hide(self, queue: Queue, message: Received, visible_in: timedelta) -> None:
        with self._at_work("hide"):
            if held := self._held(queue, message.handle):
                self._hide(held, visible_in)

    def _held(self, queue: Queue, handle: object) -> Stored | None:
        stored = self.stored[queue]
        return next((each for each in stored if (each.identity, each.receipt) == handle), None)

    def _hide(self, message: Stored, wait: timedelta) -> None:
        message.visible_at = self._in(wait)
        message.receipt = uuid.uuid4().hex

    def _in(self, wait: timedelta) -> datetime:
        seconds = -(-wait // timedelta(seconds=1))  # rounded up
        return self._clock.now() + timedelta(seconds=max(0, min(seconds, 7 * 24 * 3600)))


class MemoryPayloads(Faulty):
    """PayloadStore."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock
        self.blobs: dict[str, tuple[str, ...]] = {}

    def write(self, publish_id: str, expires: datetime, texts: Sequence[str]) -> str:
        if not texts or any("\n" in text for text in texts):
            raise ValueError("A payload has at least one text, and each is one line.")
        with self._at_work("write"):
            name = f"{expires.astimezone(UTC):%Y%m%d%H}/{publish_id}-{uuid.uuid4().hex[:12]}"
            self.blobs[name] = tuple(texts)
            return name

    def read(self, name: str) -> Sequence[str] | None:
        with self._at_work("read"):
            return self.blobs.get(name)

    def delete_expired(self, now: datetime, deadline: datetime) -> int:
        with self._at_work("delete_expired"):
            if self._clock.now() >= deadline:
                return 0
            hour = f"{now.astimezone(UTC):%Y%m%d%H}"
            expired = [name for name in self.blobs if name < hour and not name.startswith(hour)]
            for name in expired:
                del self.blobs[name]
            return len(expired)


class MemoryDeadLetters(Faulty):
    """DeadLetterStore. Every container exists but those in *missing*."""

    def __init__(self) -> None:
        super().__init__()
        self.missing: set[str] = set()
        self.blobs: dict[tuple[str, str], bytes] = {}  # by container and path
        self.poison: dict[str, bytes] = {}

    def write(self, container: str, path: str, body: bytes) -> bool:
        with self._at_work("write"):
            if container in self.missing:
                return False
            if self.blobs.setdefault((container, path), body) != body:
                raise StorageUnavailable
            return True

    def write_poison(self, path: str, body: bytes) -> None:
        with self._at_work("write_poison"):
            if self.poison.setdefault(path, body) != body:
                raise StorageUnavailable


class MemoryAttempts(Faulty):
    """AttemptLog, and the reading of it."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[int] = []  # how many records each write had
        self._rows: dict[tuple[Any, ...], AttemptRecord] = {}

    @property
    def records(self) -> list[AttemptRecord]:
        """Return what is stored, by event and attempt."""
        return [self._rows[key] for key in sorted(self._rows)]

    def write(self, records: Sequence[AttemptRecord]) -> None:
        with self._at_work("write"):
            self.writes.append(len(records))
            for each in records:
                hour = each.published_at.replace(minute=0, second=0, microsecond=0)
                key = (hour, each.system_id, each.number, each.outcome is None)
                self._rows[(each.topic.lower(), each.subscription.lower(), *key)] = each

    def drop_before(self, day: date, deadline: datetime) -> int:
        del deadline
        with self._at_work("drop_before"):
            old = {key: key[2].date() for key in self._rows if key[2].date() < day}
            for key in old:
                del self._rows[key]
            return len(set(old.values()))

    def read(
        self, topic: str, subscription: str, since: datetime, event_id: str | None = None
    ) -> Iterator[Sequence[AttemptRecord]]:
        first = since.replace(minute=0, second=0, microsecond=0)
        keys = [
            key
            for key in sorted(self._rows)
            if key[:2] == (topic.lower(), subscription.lower()) and key[2] >= first
        ]
        for day in sorted({key[2].date() for key in keys}, reverse=True):
            found = [self._rows[key] for key in keys if key[2].date() == day]
            if wanted := [each for each in found if event_id in {None, each.event_id}]:
                yield wanted


class Counted:
    """Metrics, and what was counted: by metric, place and dimensions."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.totals: defaultdict[tuple[str, ...], float] = defaultdict(float)

    def count(
        self,
        metric: Metric,
        topic: str,
        subscription: str = "",
        *,
        by: float = 1,
        **dimensions: str,
    ) -> None:
        assert set(dimensions) == set(DEFINITIONS[metric].dimensions)
        assert DEFINITIONS[metric].is_of_topic is not bool(subscription)
        with self._lock:
            self.totals[(metric, *map(str, dimensions.values()), topic, subscription)] += by

    def of(self, metric: Metric) -> dict[tuple[str, ...], float]:
        """Return what was counted of a metric: by dimensions, topic and subscription."""
        return {key[1:]: by for key, by in self.totals.items() if key[0] == metric}


class MemoryCounts(Faulty):
    """CountSink, CountReader and CountKeeping."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[tuple[Any, ...], CountRow] = {}
        self._sums: dict[tuple[str, str], tuple[datetime, Counts]] = {}

    def write(self, rows: Sequence[CountRow]) -> None:
        with self._at_work("write"):
            for row in rows:
                key = (row.start, row.span, row.topic, row.subscription, row.instance)
                self.rows[key] = row._replace(counts=dict(row.counts))

    def minutes(
        self, topic: str, subscription: str, since: datetime, until: datetime
    ) -> Iterator[tuple[datetime, Counts]]:
        place = (Span.MINUTE, topic.lower(), subscription.lower())
        with self._at_work("minutes"):
            found = [self.rows[key] for key in sorted(self.rows) if key[1:4] == place]
        for row in found:
            if since <= row.start < until:
                yield row.start, row.counts

    def totals(self) -> Mapping[tuple[str, str], Counts]:
        with self._at_work("totals"):
            names = {*self._hours(), *self._sums}
            return {name: added(self._parts(name)) for name in names}

    def add_up(self, before: datetime, forget: datetime) -> int:
        with self._at_work("add_up"):
            needless = 0
            for name in {*self._hours(), *self._sums}:
                hours = [row for row in self._hours().get(name, []) if row.start < before]
                until, known = self._sums.get(name, (before, {}))
                if hours:
                    last = max(row.start for row in hours)
                    self._sums[name] = last, added([known, *(row.counts for row in hours)])
                elif until < forget:
                    del self._sums[name]
                for row in hours:
                    del self.rows[(row.start, row.span, *name, row.instance)]
                needless += len(hours)
            return needless

    def drop_before(self, day: date, deadline: datetime) -> int:
        del deadline
        with self._at_work("drop_before"):
            old = [k for k in self.rows if k[1] is Span.MINUTE and k[0].date() < day]
            for key in old:
                del self.rows[key]
            return len({key[0].date() for key in old})

    def _hours(self) -> dict[tuple[str, str], list[CountRow]]:
        hours: dict[tuple[str, str], list[CountRow]] = defaultdict(list)
        for row in self.rows.values():
            if row.span is Span.HOUR:
                hours[row.topic, row.subscription].append(row)
        return hours

    def _parts(self, name: tuple[str, str]) -> list[Counts]:
        rows = [row.counts for row in self._hours().get(name, [])]
        return rows + ([self._sums[name][1]] if name in self._sums else [])


class MemoryResources(Faulty):
    """ResourceStore."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[tuple[Table, str, str], Resource] = {}

    def get(self, table: Table, partition: str, name: str) -> Resource | None:
        with self._at_work("get"):
            return self._rows.get((table, partition.lower(), name.lower()))

    def put(
        self, table: Table, partition: str, name: str, document: Mapping[str, Any], etag: str | None
    ) -> Resource:
        if set(partition + name) & set("/\\#?\0"):
            raise ValueError(f"'{partition}' and '{name}' can't be keys of a table")
        key = (table, partition.lower(), name.lower())
        with self._at_work("put"):
            there = self._rows.get(key)
            if (there and there.etag) != etag:
                raise Conflict
            text = json.dumps(document)
            if len(text) > 500_000:
                raise InvalidDocument
            # A copy: nobody changes what is stored from outside.
            self._rows[key] = Resource(document=json.loads(text), etag=uuid.uuid4().hex)
            return self._rows[key]

    def delete(self, table: Table, partition: str, name: str) -> bool:
        with self._at_work("delete"):
            return self._rows.pop((table, partition.lower(), name.lower()), None) is not None

    def list(self, table: Table, partition: str) -> Sequence[Resource]:
        with self._at_work("list"):
            keys = sorted(key for key in self._rows if key[:2] == (table, partition.lower()))
            return [self._rows[key] for key in keys]


class InlinePushPool:
    """PushPool that does all work at once in the caller's thread, but for the last *unstarted*."""

    def __init__(self, unstarted: int = 0) -> None:
        self.unstarted = unstarted
        self.is_slow = self.is_outside = False
        self.keys: list[str] = []
        self.stop_after: list[timedelta] = []

    def run(
        self,
        key: str,
        items: Sequence[T],
        work: Callable[[T], R],
        *,
        stop_after: timedelta,
        hand_over: Callable[[], bool],
    ) -> Iterator[list[tuple[T, R]]]:
        self.stop_after.append(stop_after)  # no time passes here
        self.keys.append(key)
        if self.is_slow:
            self.is_outside = hand_over()
        for item in items[: max(0, len(items) - self.unstarted)]:
            yield [(item, work(item))]

    def pace(self, key: str, count: int) -> timedelta:
        del key, count
        return timedelta(seconds=10)


class Sent(NamedTuple):
    """A request that was pushed."""

    request: OutboundRequest
    timeout: timedelta
    at: datetime
    late: Late | None = None


class ScriptedPusher:
    """Pusher that answers by its script: per URL in turn, the last one for ever; else a 200."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._scripts: dict[str, list[Exchange]] = {}
        self._lock = threading.Lock()
        self.takes = timedelta()  # of the clock's time, each request
        self.sent: list[Sent] = []

    def script(self, url: str, *exchanges: Exchange) -> None:
        """Answer requests to *url* with *exchanges*."""
        self._scripts[url] = list(exchanges)

    def send(
        self, request: OutboundRequest, timeout: timedelta, late: Late | None = None
    ) -> Exchange:
        with self._lock:
            self.sent.append(Sent(request, timeout, self._clock.now(), late))
            self._clock.advance(self.takes)
            script = self._scripts.get(request.url) or [answered(200)]
            return script.pop(0) if len(script) > 1 else script[0]


def answered(
    status: int, body: bytes = b"", headers: Mapping[str, str] | None = None, seconds: float = 0.1
) -> Answered:
    """Build an answer."""
    return Answered(status=status, headers=headers or {}, body=body, seconds=seconds)
