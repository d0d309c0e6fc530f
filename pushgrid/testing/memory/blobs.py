"""Payloads and dead letters in memory."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime

from pushgrid.testing.memory.clock import FakeClock
from pushgrid.testing.memory.faults import Faulty
from shared.deadletter.blob_summary import BlobSummary
from shared.engine.ports import Listing, NoContainer, StoredBlob
from shared.errors import StorageUnavailable, StorageUnreachable
from shared.subscriptions.subscription import DeadLetterDestination


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
    DeadLetterStore and DeadLetterReader.

    Every container exists but those in *missing*, of every account. Accounts in *away* do not
    answer.
    """

    def __init__(self, clock: FakeClock | None = None) -> None:
        super().__init__()
        self._clock = clock or FakeClock()
        self._written_at: dict[tuple[str, str], datetime] = {}
        self.missing: set[str] = set()
        self.away: set[str] = set()
        self.blobs: dict[tuple[str, str], bytes] = {}  # by container and path
        self.accounts: dict[tuple[str, str], str] = {}  # where each of them is
        self.summaries: dict[tuple[str, str], BlobSummary] = {}
        self.poison: dict[str, bytes] = {}

    def write(
        self,
        destination: DeadLetterDestination,
        path: str,
        body: bytes,
        summary: BlobSummary | None = None,
    ) -> bool:
        with self._at_work("write"):
            container = destination.container
            if self._lacks_container(destination):
                return False
            if self.blobs.setdefault((container, path), body) != body:
                raise StorageUnavailable
            self.accounts[container, path] = destination.account
            if summary:
                self.summaries[container, path] = summary
            self._written_at.setdefault((container, path), self._clock.now())
            return True

    def has(self, destination: DeadLetterDestination, path: str) -> bool:
        with self._at_work("has"):
            has_container = not self._lacks_container(destination)
            return has_container and (destination.container, path) in self.blobs

    def list(self, destination: DeadLetterDestination, folder: str) -> Listing:
        with self._at_work("list"):
            if self._lacks_container(destination):
                raise NoContainer(destination)
            stored = {
                path: body
                for (container, path), body in self.blobs.items()
                if container == destination.container and path.startswith(folder)
            }
            below = {path: path.removeprefix(folder).partition("/") for path in stored}
            return Listing(
                sorted({first for first, slash, _ in below.values() if slash}),
                [
                    StoredBlob(path, self._written_at[key], len(body), self.summaries.get(key))
                    for path, body in stored.items()
                    if not below[path][1]
                    for key in [(destination.container, path)]
                ],
            )

    def read(self, destination: DeadLetterDestination, path: str, most: int) -> bytes | None:
        with self._at_work("read"):
            if self._lacks_container(destination):
                return None
            body = self.blobs.get((destination.container, path))
            return None if body is None else body[:most]

    def _lacks_container(self, destination: DeadLetterDestination) -> bool:
        if destination.account in self.away:
            raise StorageUnreachable
        return destination.container in self.missing

    def write_poison(self, path: str, body: bytes) -> None:
        with self._at_work("write_poison"):
            if self.poison.setdefault(path, body) != body:
                raise StorageUnavailable
