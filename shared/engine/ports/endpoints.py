"""Declares ports to endpoints: pushing to them, and the health that all processes share."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from datetime import timedelta
from typing import NamedTuple, Protocol, TypeVar

from shared.delivery.health.endpoint_health import Health
from shared.http import Exchange, LateAnswerHandler, OutboundRequest
from shared.subscriptions.subscription import SubscriptionKey

T = TypeVar("T")
R = TypeVar("R", bound="PushResult")


class PushResult(Protocol):
    """The result of a push, as far as the pool needs it."""

    @property
    def was_sent(self) -> bool:
        """Whether there was a push; without one nothing is known about the endpoint."""

    @property
    def succeeded(self) -> bool:
        """Whether the endpoint accepted it; a push that failed costs the key slots."""


class PushPool(Protocol):
    """Runs pushes concurrently, a limited number for each key."""

    def run(
        self,
        key: Hashable,
        items: Sequence[T],
        work: Callable[[T], R],
        *,
        stop_after: timedelta,
        detach: Callable[[], bool],
    ) -> Iterator[list[tuple[T, R]]]:
        """
        Do *work* on every item and yield what is finished, at least once a second, maybe nothing.

        No item is begun later than *stop_after* from now, nor for a key that is stuck; one that was
        not begun is never yielded.

        If the pushes are slow, *detach* is called once, in the caller's thread: it ends the
        invocation, and returns whether it could. The pushes go on.
        """

    def pace(self, key: Hashable, count: int) -> timedelta:
        """Return how long *count* items that were not begun should stay away."""


class Pusher(Protocol):
    """Sends requests to endpoints, through the outbound guard."""

    def send(
        self, request: OutboundRequest, timeout: timedelta, late: LateAnswerHandler | None = None
    ) -> Exchange:
        """
        Send and wait for the response headers for at most *timeout*. Never raises.

        With *late* a request that was sent but not answered in time is ``TIMED_OUT`` as well, but
        its connection is kept, and a later answer is reported. That is best effort: there is a
        limit to the connections that wait.
        """


class StoredHealth(NamedTuple):
    """An endpoint's stored health. *etag* changes with every write."""

    health: Health
    etag: str


class HealthStore(Protocol):
    """Shares endpoint health between processes: a row for each subscription."""

    def cached(self, key: SubscriptionKey) -> StoredHealth | None:
        """Return the row as of a second ago, or older while storage fails; never raises."""

    def read(self, key: SubscriptionKey) -> StoredHealth | None:
        """
        Return what is stored now.

        Raises:
            StorageUnavailable: storage did not answer.
        """

    def write(self, key: SubscriptionKey, health: Health, etag: str | None) -> None:
        """
        Store it: only over the row of *etag*, or, with ``None``, only where there is none.

        Raises:
            Conflict: another process was first.
            StorageUnavailable: it may or may not be stored.
        """


class Notifier(Protocol):
    """Notifies endpoints, best effort, through the outbound guard."""

    def notify(self, requests: Sequence[OutboundRequest]) -> None:
        """Send *requests* and return within a few seconds, whatever their result."""
