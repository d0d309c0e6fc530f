"""
Decides which publications are committed together, and when.

A request that finds no commit under way begins one; there is no timer. What arrives meanwhile
gathers, and is the next commit. Where more gathers than one commit takes, full commits run side by
side.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Generic, NamedTuple, Protocol, TypeVar

from shared.delivery.messages.publication import Load, Publication

MAX_UNDER_WAY = 5  # commits; at most one of them is not full, and only that one is the last


MAX_WAITING = 32_000_000  # bytes of events; they take a few times as much memory

# 16 full messages, as many as are put at a time; as much as one request may have.
LIMIT = Load(requests=64, deliveries=1024, size=1_536_000)


class HasPublication(Protocol):
    """A request that waits for its publication to be stored."""

    @property
    def publication(self) -> Publication: ...


R = TypeVar("R", bound=HasPublication)


class CommitGroup(NamedTuple, Generic[R]):
    """The requests of one commit, at least one. Full: what waited has filled it."""

    requests: tuple[R, ...]
    is_full: bool


class Gathering(Generic[R]):
    """The requests that wait, by topic, and the commits that are under way. Not thread-safe."""

    def __init__(self, limit: Load = LIMIT) -> None:
        self._limit = limit
        # By topic: the first one's turn is next.
        self._waiting: OrderedDict[str, deque[tuple[R, Load]]] = OrderedDict()
        self._load = Load()
        self._full = 0  # commits under way that are full
        self._partial = False  # whether one that is not full is under way

    def arrive(self, request: R) -> None:
        """Add a request."""
        load = request.publication.load
        self._waiting.setdefault(request.publication.topic, deque()).append((request, load))
        self._load = self._load.plus(load)

    def finish(self, group: CommitGroup[R]) -> None:
        """Note the end of a commit."""
        if group.is_full:
            self._full -= 1
        else:
            self._partial = False

    def withdraw(self, request: R) -> bool:
        """Remove a request that waits; ``False`` if it is in a commit by now."""
        topic = request.publication.topic
        for waiting in self._waiting.get(topic, ()):
            if waiting[0] is request:
                self._waiting[topic].remove(waiting)
                self._forget(topic, waiting[1])
                return True
        return False

    @property
    def has_room(self) -> bool:
        """Whether another request may wait: the memory of those that do is bounded."""
        return self._load.size < MAX_WAITING

    @property
    def is_full(self) -> bool:
        """Whether what waits fills a commit."""
        return self._load.reaches(self._limit)

    def begin(self) -> list[CommitGroup[R]]:
        """Return the commits that begin now."""
        begun = []
        while self._waiting:
            is_full = self.is_full
            if self._full == MAX_UNDER_WAY - 1 if is_full else self._partial:
                break
            begun.append(CommitGroup(tuple(self._take()), is_full))
            if is_full:
                self._full += 1
            else:
                self._partial = True
        return begun

    def _take(self) -> list[R]:
        """
        Take what one commit may have: a request of each topic in turn, at least one request.

        A topic whose next request does not fit is the first in the next commit.
        """
        taken: list[R] = []
        load = Load()
        turns = deque(self._waiting)
        while turns:
            topic = turns.popleft()
            request, own = self._waiting[topic][0]
            more = load.plus(own)
            if taken and more.exceeds(self._limit):
                continue
            load = more
            taken.append(request)
            self._waiting[topic].popleft()
            self._waiting.move_to_end(topic)
            self._forget(topic, own)
            if topic in self._waiting:
                turns.append(topic)
        return taken

    def _forget(self, topic: str, load: Load) -> None:
        self._load = self._load.minus(load)
        if not self._waiting[topic]:
            del self._waiting[topic]
