"""The adapters of storage. Their SDKs are imported with their first request."""

from __future__ import annotations

import atexit
import time
import uuid

from shared.adapters.directory import CachedDirectory, Readers
from shared.adapters.metric_recorder import MetricRecorder
from shared.adapters.storage.account import StorageAccount
from shared.adapters.storage.attempts import StorageAttempts
from shared.adapters.storage.blobs import StorageDeadLetters, StoragePayloads
from shared.adapters.storage.metrics import StorageMetrics
from shared.adapters.storage.queues import StorageQueues
from shared.adapters.storage.tables import StorageResources
from shared.arm.namespace_codec import to_namespace_topic
from shared.arm.subscription_codec import to_subscription_in_force
from shared.arm.topic_codec import to_topic
from shared.engine.delivering.requeue import Requeue
from shared.wiring.once import once
from shared.wiring.process import CLOCK, settings


@once
def account() -> StorageAccount:
    return StorageAccount(settings().storage)


@once
def queues() -> StorageQueues:
    return StorageQueues(account())


@once
def requeue() -> Requeue:
    return Requeue(sender=queues(), clock=CLOCK, sleep=time.sleep)


@once
def tables() -> StorageResources:
    return StorageResources(account())


@once
def attempts() -> StorageAttempts:
    return StorageAttempts(account(), CLOCK)


@once
def payloads() -> StoragePayloads:
    return StoragePayloads(account(), CLOCK)


@once
def dead_letters() -> StorageDeadLetters:
    return StorageDeadLetters(account())


@once
def counts() -> StorageMetrics:
    return StorageMetrics(account(), CLOCK)


@once
def metrics() -> MetricRecorder:
    recorder = MetricRecorder(counts(), CLOCK, instance=uuid.uuid4().hex)
    recorder.start(time.sleep)
    atexit.register(recorder.flush)  # where the process ends in order
    return recorder


@once
def directory() -> CachedDirectory:
    return CachedDirectory(
        tables(),
        Readers(to_topic, to_namespace_topic, to_subscription_in_force),
        cache_for=settings().cache_for,
        clock=time.monotonic,
    )
