"""Payloads and dead letters in memory."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime

from shared.errors import StorageUnavailable, StorageUnreachable
from shared.subscriptions.subscription import DeadLetterDestination
from tests.fakes.clock import FakeClock
from tests.fakes.faults import Faulty


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
    """
    DeadLetterStore. Every container exists but those in *missing*, of every account.

    Accounts in *away* do not answer.
    """

    def __init__(self) -> None:
        super().__init__()
        self.missing: set[str] = set()
        self.away: set[str] = set()
        self.blobs: dict[tuple[str, str], bytes] = {}  # by container and path
        self.accounts: dict[tuple[str, str], str] = {}  # where each of them is
        self.poison: dict[str, bytes] = {}

    def write(self, destination: DeadLetterDestination, path: str, body: bytes) -> bool:
        with self._at_work("write"):
            container = destination.container
            if destination.account in self.away:
                raise StorageUnreachable
            if container in self.missing:
                return False
            if self.blobs.setdefault((container, path), body) != body:
                raise StorageUnavailable
            self.accounts[container, path] = destination.account
            return True

    def has(self, destination: DeadLetterDestination, path: str) -> bool:
        with self._at_work("has"):
            if destination.account in self.away:
                raise StorageUnreachable
            return (destination.container, path) in self.blobs

    def write_poison(self, path: str, body: bytes) -> None:
        with self._at_work("write_poison"):
            if self.poison.setdefault(path, body) != body:
                raise StorageUnavailable
