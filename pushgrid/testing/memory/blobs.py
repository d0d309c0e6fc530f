"""Payloads and dead letters in memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from urllib.parse import quote
from zlib import crc32

from pushgrid.testing.memory.clock import FakeClock
from pushgrid.testing.memory.faults import MemoryPort, Seam, at_once, request
from shared.clock import Deadline
from shared.deadletter.blob_summary import BlobSummary
from shared.engine.ports import Chance, KeyedCounts, Listing, NoContainer, StoredBlob
from shared.errors import StorageUnavailable, StorageUnreachable
from shared.events.notices import WrittenBlob
from shared.subscriptions.subscription import DeadLetterDestination


class MemoryPayloads(MemoryPort):
    """PayloadStore."""

    port = "payloads"

    def __init__(
        self, clock: FakeClock, seam: Seam = at_once, chance: Chance | None = None
    ) -> None:
        super().__init__(seam, chance)
        self._clock = clock
        self.blobs: dict[str, tuple[str, ...]] = {}

    @request
    def write(self, publish_id: str, expires: datetime, texts: Sequence[str]) -> str:
        if not texts or any("\n" in text for text in texts):
            raise ValueError("A payload has at least one text, and each is one line.")
        name = f"{expires.astimezone(UTC):%Y%m%d%H}/{publish_id}-{self._chance.secret(6).hex()}"
        self.blobs[name] = tuple(texts)
        return name

    @request
    def read(self, name: str) -> Sequence[str] | None:
        return self.blobs.get(name)

    @request
    def delete_expired(self, now: datetime, deadline: Deadline) -> int:
        if deadline.has_passed:
            return 0
        hour = f"{now.astimezone(UTC):%Y%m%d%H}"
        expired = [name for name in self.blobs if name < hour and not name.startswith(hour)]
        for name in expired:
            del self.blobs[name]
        return len(expired)


class MemoryDeadLetters(MemoryPort):
    """
    DeadLetterStore and DeadLetterReader.

    Every container exists but those in *missing*, of every account. Accounts in *away* do not
    answer.
    """

    port = "dead_letters"

    def __init__(
        self,
        clock: FakeClock | None = None,
        seam: Seam = at_once,
        chance: Chance | None = None,
    ) -> None:
        super().__init__(seam, chance)
        self._clock = clock or FakeClock()
        self._written_at: dict[tuple[str, str], datetime] = {}
        self.missing: set[str] = set()
        self.away: set[str] = set()
        self.blobs: dict[tuple[str, str], bytes] = {}  # by container and path
        self.accounts: dict[tuple[str, str], str] = {}  # where each of them is
        self.summaries: dict[tuple[str, str], BlobSummary] = {}
        self.poison: dict[str, bytes] = {}

    @request
    def write(
        self,
        destination: DeadLetterDestination,
        path: str,
        body: bytes,
        summary: BlobSummary | None = None,
        counts: KeyedCounts | None = None,
    ) -> WrittenBlob | None:
        del counts  # There is no transaction.
        container = destination.container
        if self._lacks_container(destination):
            return None
        if self.blobs.setdefault((container, path), body) != body:
            raise StorageUnavailable
        self.accounts[container, path] = destination.account
        if summary:
            self.summaries[container, path] = summary
        is_new = (container, path) not in self._written_at
        self._written_at.setdefault((container, path), self._clock.now())
        found = self._described(destination, path)
        if not is_new:
            return found
        one, other = self._chance.id(), self._chance.id()
        return found._replace(request_id=one, client_request_id=other)

    @request
    def find(self, destination: DeadLetterDestination, path: str) -> WrittenBlob | None:
        if self._lacks_container(destination) or not self._is_there(destination, path):
            return None
        return self._described(destination, path)

    def _described(self, destination: DeadLetterDestination, path: str) -> WrittenBlob:
        """Return what storage knows of a blob at any time."""
        key = destination.container, path
        account = destination.account or "testing"
        return WrittenBlob(
            container=destination.container,
            path=path,
            url=f"https://{account}.blob.core.windows.net/{destination.container}/{quote(path)}",
            etag=f'"0x{crc32(self.blobs[key]):X}"',
            written_at=self._written_at[key],
            size=len(self.blobs[key]),
            content_type="application/json",
        )

    @request
    def list(self, destination: DeadLetterDestination, folder: str) -> Listing:
        if self._lacks_container(destination):
            raise NoContainer(destination)
        stored = {
            path: body
            for (container, path), body in self.blobs.items()
            if container == destination.container
            and path.startswith(folder)
            and self._is_there(destination, path)
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

    @request
    def read(self, destination: DeadLetterDestination, path: str, most: int) -> bytes | None:
        if self._lacks_container(destination) or not self._is_there(destination, path):
            return None
        return self.blobs[destination.container, path][:most]

    def _is_there(self, destination: DeadLetterDestination, path: str) -> bool:
        """Tell whether a path is a blob of that account; no two accounts have the same path."""
        account = self.accounts.get((destination.container, path))
        return account is not None and (account or "testing") == (destination.account or "testing")

    def _lacks_container(self, destination: DeadLetterDestination) -> bool:
        if destination.account in self.away:
            raise StorageUnreachable
        return destination.container in self.missing

    @request
    def write_poison(self, path: str, body: bytes) -> None:
        if self.poison.setdefault(path, body) != body:
            raise StorageUnavailable
