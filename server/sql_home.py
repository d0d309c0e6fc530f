"""What the homes in SQL databases have in common."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from server import azure_accounts
from server.blobs import BLOBS
from shared import telemetry
from shared.adapters.sql.store import SqlStore
from shared.app import BackgroundWork
from shared.clock import Deadline
from shared.engine.ports import Metrics, Threads
from shared.engine.ports.leases import Lease, Leases
from shared.engine.ports.settling import Settling
from shared.settings import Settings
from shared.subscriptions.subscription import SubscriptionKey
from shared.watched_clock import WatchedClock

#: Dead letters and poison records go after this time: nobody else bounds the store.
DEAD_LETTERS_KEPT_FOR = timedelta(days=90)
RETENTION_EVERY = timedelta(hours=1)
_RETENTION_AT_MOST = timedelta(minutes=1)


class SqlHome:
    """A home with *store*, which `open` makes with `_options`."""

    store: SqlStore

    def __init__(self, settings: Settings, clock: WatchedClock, threads: Threads) -> None:
        self._options = {
            "threads": threads,
            "account": settings.own_account,
            "blob_url": f"{settings.public_url}/{BLOBS}" if settings.public_url else "",
            "other_accounts": azure_accounts.dead_letters(settings),
        }
        self._clock = clock
        self._monotonic = threads.monotonic
        self._off_loop = threads.pool("home", 1)

    @property
    def leases(self) -> Leases:
        return self.store.leases

    def settling(self, lease: Lease, metrics: Metrics) -> Settling:
        return self.store.settling(lease, metrics)

    @property
    def has_lease(self) -> bool:
        return self.store.database.has_lease

    @property
    def background(self) -> Sequence[BackgroundWork]:
        return [BackgroundWork("retention", RETENTION_EVERY, self._delete_old)]

    def _delete_old(self) -> bool:
        before = self._clock.now() - DEAD_LETTERS_KEPT_FOR
        if self._clock.is_trusted:
            deadline = Deadline(_RETENTION_AT_MOST, self._monotonic)
            if count := self.store.dead_letters.delete_before(before, deadline):
                telemetry.info("dead_letters.deleted", count=count)
        return False

    def has_waiting(self, key: SubscriptionKey) -> bool:
        return any(key.folded in found for found in self.store.queues.unfinished())
