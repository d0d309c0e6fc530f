"""What the use cases need from the world; the adapters implement it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple, NewType, Protocol, TypeVar

from shared.delivery.attempt_record import AttemptRecord
from shared.delivery.health import Health
from shared.events.access_token import Claims, TokenFault
from shared.events.topic import Topic
from shared.http import Exchange, Late, OutboundRequest
from shared.metrics import CountRow, Counts, Metric
from shared.subscriptions.subscription import EventSubscription

T = TypeVar("T")
R = TypeVar("R", bound="PushResult")

# The adapter's own: good for its message until somebody receives that.
Receipt = NewType("Receipt", object)


class Queue(StrEnum):
    """Our queues. Only the first two have a trigger, and so a poison queue of the host."""

    DELIVERIES = "deliveries"
    RETRIES = "retries"
    WAITING = "waiting"
    DEADLETTERS = "deadletters"
    DELIVERIES_POISON = "deliveries-poison"
    RETRIES_POISON = "retries-poison"


class Table(StrEnum):
    """Tables of documents: topics by kind and name, the others by topic and subscription."""

    TOPICS = "topics"
    EVENT_SUBSCRIPTIONS = "eventsubscriptions"
    ENDPOINT_HEALTH = "endpointhealth"


# Kinds of documents: their partitions in ``Table.TOPICS``.
CUSTOM_TOPICS = "topic"
NAMESPACES = "namespace"
NAMESPACE_TOPICS = "namespacetopic"  # by what the data plane calls them: {namespace}.{topic}


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A message taken from a queue and hidden from others for as long as was asked."""

    text: str
    handle: object  # the adapter's own: what deleting or hiding it again needs


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """An ARM document as stored, its secrets included. *etag* changes with every write."""

    document: Mapping[str, Any]
    etag: str


class Sender(Protocol):
    """Puts messages on queues. They never expire."""

    def put(self, queue: Queue, text: str, visible_in: timedelta = timedelta()) -> Receipt:
        """
        Store one message, hidden for *visible_in*, which is rounded up to whole seconds.

        Raises:
            StorageUnavailable: it may or may not be stored.
        """

    def put_all(self, queue: Queue, texts: Sequence[str]) -> None:
        """
        Store all messages, several at a time, visible at once; return when every one is stored.

        Raises:
            StorageUnavailable: some may be stored.
        """

    def take_back(self, queue: Queue, receipt: Receipt) -> bool:
        """
        Delete what was put; return ``False`` if somebody has received it meanwhile.

        Raises:
            StorageUnavailable: it may or may not be deleted.
        """

    def replace(
        self, queue: Queue, receipt: Receipt, text: str, visible_in: timedelta
    ) -> Receipt | None:
        """
        Change what was put, and hide it for *visible_in* from now; return its new receipt.

        ``None`` if somebody has received it meanwhile: then it stays as it was.

        Raises:
            StorageUnavailable: it may or may not be changed.
        """


class Receiver(Protocol):
    """Takes messages from queues without a trigger."""

    def receive(self, queue: Queue, hidden_for: timedelta) -> Sequence[Received]:
        """Take up to 32 visible messages; none when there are none, or no queue."""

    def delete(self, queue: Queue, message: Received) -> None:
        """Delete it; nothing happens if somebody else has received it meanwhile."""

    def hide(self, queue: Queue, message: Received, visible_in: timedelta) -> None:
        """Let it be received again after *visible_in*; nothing happens if somebody else has it."""


class Seen(NamedTuple):
    """A visible message, not taken from its queue, and when it was put there."""

    text: str
    stored_at: datetime


class Backlog(NamedTuple):
    """About how many messages a queue has, hidden ones included, and up to 32 visible ones."""

    messages: int
    visible: Sequence[Seen]


class QueueWatch(Protocol):
    """Looks at queues and leaves them as they are."""

    def look(self, queue: Queue) -> Backlog:
        """
        Return what there is to see; nothing if there is no queue.

        Raises:
            StorageUnavailable: storage did not answer.
        """


class PayloadStore(Protocol):
    """Events that don't fit into messages: one blob a publish request, one line an event."""

    def write(self, publish_id: str, expires: datetime, texts: Sequence[str]) -> str:
        """
        Store *texts*, one a line, to be kept at least until *expires*; return the blob's name.

        Raises:
            StorageUnavailable: it may or may not be stored.
        """

    def read(self, name: str) -> Sequence[str] | None:
        """Return the lines of the blob; ``None`` if there is no such blob."""

    def delete_expired(self, now: datetime, deadline: datetime) -> int:
        """Delete blobs whose time is over, until *deadline*; return how many."""


class DeadLetterStore(Protocol):
    """Containers for dead letters, and the one for our own poison."""

    def write(self, container: str, path: str, body: bytes) -> bool:
        """
        Store a blob of JSON; return ``False`` if the account has no such container.

        Raises:
            StorageUnavailable: anything else that keeps it from being stored.
        """

    def write_poison(self, path: str, body: bytes) -> None:
        """
        Store a record of a message that can't be handled in the app's container ``poison``.

        Raises:
            StorageUnavailable: it may or may not be stored.
        """


class AttemptLog(Protocol):
    """Attempts that were made, by the day on which their event was published."""

    def write(self, records: Sequence[AttemptRecord]) -> None:
        """
        Store *records*, over what is there of the same attempt; quick, also to give up.

        Raises:
            StorageUnavailable: some may be stored.
        """

    def drop_before(self, day: date, deadline: datetime) -> int:
        """
        Forget all days before *day*, until *deadline*; return how many there were.

        Raises:
            StorageUnavailable: some may be forgotten.
        """


class Metrics(Protocol):
    """Counts what happens; keeping the counts is done in the background and disturbs nobody."""

    def count(
        self,
        metric: Metric,
        topic: str,
        subscription: str = "",
        *,
        by: float = 1,
        **dimensions: str,
    ) -> None:
        """Add *by*, in whatever thread; never raises. Without a *subscription*: the topic's own."""


class CountSink(Protocol):
    """Keeps what processes have counted."""

    def write(self, rows: Sequence[CountRow]) -> None:
        """
        Store *rows*, over what is there of the same process and span; quick, also to give up.

        Raises:
            StorageUnavailable: some may be stored.
        """


class CountReader(Protocol):
    """What all processes have counted. Names are taken whatever their case."""

    def minutes(
        self, topic: str, subscription: str, since: datetime, until: datetime
    ) -> Iterator[tuple[datetime, Counts]]:
        """
        Yield counts with their minute, from *since* to before *until*, by time; some minutes often.

        Raises:
            StorageUnavailable: storage did not answer.
        """

    def totals(self) -> Mapping[tuple[str, str], Counts]:
        """
        Return all that was ever counted, by topic and subscription: it never becomes less.

        Raises:
            StorageUnavailable: storage did not answer.
        """


class CountKeeping(Protocol):
    """What keeps counts from becoming too many."""

    def add_up(self, before: datetime, forget: datetime) -> int:
        """
        Make one total of the hours before *before*; return how many rows that made needless.

        A total that has had no hour since *forget* is forgotten.

        Raises:
            StorageUnavailable: some may be added up, none is twice.
        """

    def drop_before(self, day: date, deadline: datetime) -> int:
        """
        Forget the minutes of all days before *day*, until *deadline*; return how many days.

        Raises:
            StorageUnavailable: some may be forgotten.
        """


class TokenVerifier(Protocol):
    """Reads access tokens of Entra ID that are meant for one part of us."""

    def verify(self, token: str) -> Claims | TokenFault:
        """
        Say what *token* claims, or why it is not believed; a fetch of keys may take ten seconds.

        Raises:
            SigningKeysUnavailable: what it is signed with can't be known now.
        """


class TopicReader(Protocol):
    """Topics as publishing sees them; a change may be some seconds old."""

    def topic(self, name: str) -> Topic | None:
        """Return the topic, whatever the case of *name*."""


class SubscriptionReader(Protocol):
    """Subscriptions as delivering sees them; a change may be some seconds old."""

    def of_topic(self, topic: str) -> Sequence[EventSubscription]:
        """Return all subscriptions of a topic."""

    def subscription(self, topic: str, name: str) -> EventSubscription | None:
        """Return one subscription."""

    def fresh(self, topic: str, name: str) -> EventSubscription | None:
        """
        Return one subscription as it is in storage now.

        Raises:
            StorageUnavailable: storage did not answer.
        """


class ResourceStore(Protocol):
    """ARM documents. *partition* and *name* are taken whatever their case."""

    def get(self, table: Table, partition: str, name: str) -> Resource | None:
        """Return one document."""

    def put(
        self, table: Table, partition: str, name: str, document: Mapping[str, Any], etag: str | None
    ) -> Resource:
        """
        Store a document: only over the one of *etag*, or, with ``None``, only where there is none.

        Raises:
            Conflict: somebody else was first.
            StorageUnavailable: storage did not answer.
        """

    def delete(self, table: Table, partition: str, name: str) -> bool:
        """Delete one document; return whether there was one."""

    def list(self, table: Table, partition: str) -> Sequence[Resource]:
        """Return all documents of a partition, by name."""


class PushResult(Protocol):
    """What came of a push, as far as the pool must know."""

    @property
    def succeeded(self) -> bool | None:
        """Whether the endpoint took it: failures cost a key slots. ``None``: it was not sent."""


class StoredHealth(NamedTuple):
    """The health of an endpoint as it is stored. *etag* changes with every write."""

    health: Health
    etag: str


class HealthStore(Protocol):
    """What all processes know of the endpoints' health: a row for each subscription."""

    def seen(self, topic: str, name: str) -> StoredHealth | None:
        """Return what was stored a second ago, or earlier while storage fails; never raises."""

    def read(self, topic: str, name: str) -> StoredHealth | None:
        """
        Return what is stored now.

        Raises:
            StorageUnavailable: storage did not answer.
        """

    def write(self, topic: str, name: str, health: Health, etag: str | None) -> None:
        """
        Store it: only over the row of *etag*, or, with ``None``, only where there is none.

        Raises:
            Conflict: somebody else was first.
            StorageUnavailable: it may or may not be stored.
        """


class PushPool(Protocol):
    """Runs pushes side by side, so many at a time for each key."""

    def run(
        self,
        key: str,
        items: Sequence[T],
        work: Callable[[T], R],
        *,
        stop_after: timedelta,
        hand_over: Callable[[], bool],
    ) -> Iterator[list[tuple[T, R]]]:
        """
        Do *work* on every item and yield what is finished, at least once a second, maybe nothing.

        No item is begun later than *stop_after* from now, nor where waiting would be in vain; one
        that was not begun is never yielded.

        Where pushes turn out slow, *hand_over* is called once, in the caller's thread: it ends
        the invocation, and returns whether it could. The run goes on.
        """

    def pace(self, key: str, count: int) -> timedelta:
        """Return how long *count* items that were not begun should stay away."""


class Pusher(Protocol):
    """Sends requests to endpoints, through the outbound guard."""

    def send(
        self, request: OutboundRequest, timeout: timedelta, late: Late | None = None
    ) -> Exchange:
        """
        Send and wait for the response headers for at most *timeout*. Never raises.

        With *late* a request that was sent but not answered in time is ``TIMED_OUT`` as well, but
        its connection is kept, and its answer told if it comes. That is best effort: there is a
        limit to the connections that wait.
        """
