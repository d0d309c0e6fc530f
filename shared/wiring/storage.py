"""Builds the adapters of storage, whose SDKs are imported at the first request."""

from __future__ import annotations

import asyncio
import time
import uuid
from functools import partial
from typing import TYPE_CHECKING

from shared.adapters.http.http_pusher import HttpPusher
from shared.adapters.storage.attempts import StorageAttempts
from shared.adapters.storage.blobs import StorageDeadLetters, StoragePayloads
from shared.adapters.storage.clients import StorageClients
from shared.adapters.storage.connection_setting import Service, connections_beside
from shared.adapters.storage.message_put import MessagePut
from shared.adapters.storage.metrics import StorageMetrics
from shared.adapters.storage.queues import StorageQueues, StorageSender
from shared.adapters.storage.tables import StorageResources
from shared.engine.caching.buffered_metrics import BufferedMetrics
from shared.engine.caching.resource_cache import ResourceCache
from shared.engine.delivering.clock_records import ClockRecords
from shared.engine.delivering.deployment_terms import DeploymentTerms
from shared.engine.delivering.poison_records import PoisonRecords
from shared.engine.delivering.requeue import BlockingRequeue, Requeue
from shared.wiring import local_host
from shared.wiring.outbound import storage_pusher
from shared.wiring.process import CLOCK, backoff, new_id, once, threads
from shared.wiring.settings import settings

if TYPE_CHECKING:
    from shared.engine.caching.health_table import TableHealth
    from shared.engine.replaying.jobs import ReplayJobs


# Topics that are read at once, each by a thread that begins when it is needed: partitions that hang
# delay publishers and deliveries of other topics only if there are so many.
_TOPICS_READ_AT_ONCE = 16


@once
def account() -> StorageClients:
    return StorageClients(settings().storage, answered=CLOCK.storage_answered)


@once
def on_storage() -> HttpPusher:
    """Return what sends requests to storage on the event loop."""
    return storage_pusher()


@once
def other_accounts() -> dict[str, StorageClients]:
    """Return the accounts that operators have named, by name."""
    others = connections_beside(settings().storage, settings().deadletter_accounts)
    return {name: StorageClients(each, services=[Service.BLOB]) for name, each in others.items()}


@once
def message_puts() -> dict[str, MessagePut]:
    """Return what puts messages into queues of users, by account."""
    known = settings().queue_accounts
    accounts = {account().account_name: account()} | {
        name: each for name, each in other_accounts().items() if name in known
    }
    send, off_loop = on_storage().send, threads().pool("destinations", 4)
    return {name: MessagePut(each, send, off_loop) for name, each in accounts.items()}


@once
def queues() -> StorageQueues:
    return StorageQueues(account())


@once
def sender() -> StorageSender:
    off_loop = threads().pool("queues", 4)
    return StorageSender(account(), on_storage().send, off_loop, local_host.message_put)


@once
def requeue() -> Requeue:
    return Requeue(sender=sender(), clock=CLOCK, sleep=asyncio.sleep)


@once
def blocking_requeue() -> BlockingRequeue:
    return BlockingRequeue(requeue=requeue(), on_loop=threads().on_loop)


@once
def resources() -> StorageResources:
    return StorageResources(account())


@once
def health() -> TableHealth:
    from shared.engine.caching.health_table import TableHealth  # publishing needs none

    return TableHealth(resources(), threads())


@once
def attempts() -> StorageAttempts:
    return StorageAttempts(account())


@once
def payloads() -> StoragePayloads:
    return StoragePayloads(account(), threads())


@once
def dead_letters() -> StorageDeadLetters:
    return StorageDeadLetters(account(), other_accounts())


@once
def poison_records() -> PoisonRecords:
    return PoisonRecords(store=dead_letters(), clock=CLOCK, new_id=new_id)


@once
def replay_jobs() -> ReplayJobs:
    from shared.engine.replaying.jobs import ReplayJobs  # publishing needs none

    return ReplayJobs(
        rows=resources(), sender=sender(), on_loop=threads().on_loop, clock=CLOCK, backoff=backoff
    )


@once
def clock_records() -> ClockRecords:
    return ClockRecords(state=resources(), monotonic=time.monotonic, begin=threads().begin)


@once
def counts() -> StorageMetrics:
    return StorageMetrics(account())


@once
def metrics() -> BufferedMetrics:
    recorder = BufferedMetrics(counts(), CLOCK, threads(), instance=uuid.uuid4().hex)
    recorder.start()
    local_host.at_end(partial(threads().pool("last counts", 1), recorder.flush))
    return recorder


@once
def resource_cache() -> ResourceCache:
    return ResourceCache(
        resources(),
        cache_for=settings().cache_for,
        threads=threads(),
        off_loop=threads().pool("topics", _TOPICS_READ_AT_ONCE),
    )


@once
def deployment_terms() -> DeploymentTerms:
    return DeploymentTerms(
        topics=resource_cache(),
        default_profile=settings().profile,
        time_scale=settings().time_scale,
        account=account().account_name,
        honor_retry_after=settings().honor_retry_after,
        probation_counts_attempt=settings().probation_counts_attempt,
        probation_ends_events=settings().probation_ends_events,
    )
