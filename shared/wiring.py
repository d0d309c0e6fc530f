"""Settings to adapters to use cases, built once per process and only when they are needed."""

from __future__ import annotations

import asyncio
import atexit
import base64
import os
import random
import secrets
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urlsplit

from shared import telemetry
from shared.clock import SystemClock

if TYPE_CHECKING:  # A function imports only what it uses: cold starts.
    from shared.adapters.cache import CachedDirectory
    from shared.adapters.http_push import HttpPusher
    from shared.adapters.metric_recorder import MetricRecorder
    from shared.adapters.storage_account import StorageAccount
    from shared.adapters.storage_attempts import StorageAttempts
    from shared.adapters.storage_blobs import StorageDeadLetters, StoragePayloads
    from shared.adapters.storage_metrics import StorageMetrics
    from shared.adapters.storage_queues import StorageQueues
    from shared.adapters.storage_tables import StorageResources
    from shared.engine.deliver import Deliver
    from shared.engine.health import HealthTracker
    from shared.engine.manage.api import Manage
    from shared.engine.poison_records import PoisonRecords
    from shared.engine.publish import Publish
    from shared.engine.receiving import Intake
    from shared.engine.requeue import Requeue
    from shared.engine.rules import Rules
    from shared.engine.status import Status
    from shared.engine.timer_runs import Timed, TimerRuns
    from shared.settings import Settings

T = TypeVar("T")

INVOCATIONS = 48  # of the two queue functions at a time: batchSize + newBatchThreshold each

_clock = SystemClock()
_lock = RLock()
_built: dict[Callable[[], Any], Any] = {}


def _once(build: Callable[[], T]) -> Callable[[], T]:
    """Build at the first call only, also when two threads make it at the same time."""

    @wraps(build)
    def get() -> T:
        if build not in _built:
            with _lock:
                if build not in _built:
                    _built[build] = build()
        return cast("T", _built[build])

    return get


def _new_id() -> str:
    return str(uuid.uuid4())


def _new_key() -> str:
    return base64.b64encode(secrets.token_bytes(32)).decode("ascii")


def _public_host() -> str:
    return urlsplit(settings().public_url or "").hostname or ""


def _identity_endpoints() -> list[tuple[str, int]]:
    """Return where the platform hands out tokens to this app: nothing is ever sent there."""
    urls = [urlsplit(os.environ.get(name, "")) for name in ("IDENTITY_ENDPOINT", "MSI_ENDPOINT")]
    return [(url.hostname, url.port or 80) for url in urls if url.hostname]


@_once
def settings() -> Settings:
    """Read the settings. Raises InvalidSettings with everything that is wrong."""
    from shared.delivery.profiles import PROFILES
    from shared.settings import from_environ

    return from_environ(os.environ, frozenset(PROFILES))


# --- adapters


@_once
def _account() -> StorageAccount:
    from shared.adapters.storage_account import StorageAccount

    return StorageAccount(settings().storage)


@_once
def _queues() -> StorageQueues:
    from shared.adapters.storage_queues import StorageQueues

    return StorageQueues(_account())


@_once
def _tables() -> StorageResources:
    from shared.adapters.storage_tables import StorageResources

    return StorageResources(_account())


@_once
def _attempts() -> StorageAttempts:
    from shared.adapters.storage_attempts import StorageAttempts

    return StorageAttempts(_account(), _clock)


@_once
def _payloads() -> StoragePayloads:
    from shared.adapters.storage_blobs import StoragePayloads

    return StoragePayloads(_account(), _clock)


@_once
def _dead_letter_blobs() -> StorageDeadLetters:
    from shared.adapters.storage_blobs import StorageDeadLetters

    return StorageDeadLetters(_account())


@_once
def _counts() -> StorageMetrics:
    from shared.adapters.storage_metrics import StorageMetrics

    return StorageMetrics(_account(), _clock)


@_once
def _metrics() -> MetricRecorder:
    from shared.adapters.metric_recorder import MetricRecorder

    recorder = MetricRecorder(_counts(), _clock, instance=uuid.uuid4().hex)
    recorder.start(time.sleep)
    atexit.register(recorder.flush)  # where the process ends in order
    return recorder


@_once
def _directory() -> CachedDirectory:
    from shared.adapters.cache import CachedDirectory, Readers
    from shared.subscriptions.namespace_codec import namespace_topic_of
    from shared.subscriptions.subscription_document import subscription_of
    from shared.subscriptions.topic_codec import topic_of

    return CachedDirectory(
        _tables(),
        Readers(topic_of, namespace_topic_of, subscription_of),
        cache_for=settings().cache_for,
        clock=time.monotonic,
    )


@_once
def _pusher() -> HttpPusher:
    from shared.adapters.http_push import HttpPusher
    from shared.adapters.outbound_guard import OutboundGuard

    guard = OutboundGuard(
        allow_http=settings().allow_http,
        allowed_networks=settings().allowed_networks,
        own_hosts=[os.environ.get("WEBSITE_HOSTNAME", ""), _public_host()],
        identity_endpoints=_identity_endpoints(),
    )
    return HttpPusher(guard)


# --- use cases


@_once
def publish() -> Publish:
    """Return the data plane of custom topics."""
    from shared.engine.publish import Publish

    return Publish(
        topics=_directory(),
        subscriptions=_directory(),
        payloads=_payloads(),
        sender=_queues(),
        clock=_clock,
        new_id=_new_id,
        metrics=_metrics(),
    )


@_once
def deliver() -> Deliver:
    """Return the use case of both queue triggers."""
    from shared.adapters.push_pool import ThreadedPushPool
    from shared.engine.attempt_history import AttemptHistory
    from shared.engine.deliver import Deliver

    return Deliver(
        subscriptions=_directory(),
        payloads=_payloads(),
        pusher=_pusher(),
        pool=ThreadedPushPool(),
        requeue=_requeue(),
        history=AttemptHistory(log=_attempts(), logging=settings().attempt_log, clock=_clock),
        clock=_clock,
        jitter=random.random,
        rules=_rules(),
        new_lock=Lock,
        health=_health(),
        metrics=_metrics(),
    )


async def delivering(body: bytes) -> None:
    """
    Deliver one queue message on threads of our own.

    Slow endpoints then hold none of the worker's threads, which publishers wait for where all
    functions share a process. What pushes on after it has released the invocation tells in the
    log if it fails; its message comes again.
    """
    loop = asyncio.get_running_loop()
    released: asyncio.Future[None] = loop.create_future()

    def release() -> None:
        loop.call_soon_threadsafe(released.set_result, None)

    run = loop.run_in_executor(_invocations(), deliver().run, body, release)
    await asyncio.wait({run, released}, return_when=asyncio.FIRST_COMPLETED)
    if run.done():
        await run
    else:
        run.add_done_callback(_tell_failure)


def _tell_failure(run: asyncio.Future[None]) -> None:
    if not run.cancelled() and (error := run.exception()):
        telemetry.error("delivery.failed", detail=repr(error))


@_once
def wake() -> Timed:
    """Return the timer job for long waits."""
    from shared.engine.timer_runs import Timed
    from shared.engine.wake import Wake

    work = Wake(intake=_intake(), receiver=_queues(), requeue=_requeue(), clock=_clock)
    return Timed(timer="wake", work=work.run, runs=_timer_runs())


@_once
def deadletter_timer() -> Timed:
    """Return the jobs of the dead-letter timer."""
    from shared.engine.dead_letters import WriteDeadLetters
    from shared.engine.housekeeping import Housekeeping
    from shared.engine.poison import ReturnPoison
    from shared.engine.queue_watch import WatchQueues
    from shared.engine.timer_jobs import Job, TimerJobs
    from shared.engine.timer_runs import Timed

    write = WriteDeadLetters(
        intake=_intake(),
        receiver=_queues(),
        payloads=_payloads(),
        store=_dead_letter_blobs(),
        clock=_clock,
        new_id=_new_id,
        metrics=_metrics(),
    )
    poison = ReturnPoison(
        intake=_intake(),
        receiver=_queues(),
        requeue=_requeue(),
        records=_records(),
        payloads=_payloads(),
    )
    housekeeping = Housekeeping(
        payloads=_payloads(),
        attempts=_attempts(),
        counts=_counts(),
        state=_tables(),
        clock=_clock,
    )
    jobs: dict[str, Job] = {
        "dead letters": write,
        "poison": poison,
        "queues": WatchQueues(watch=_queues(), clock=_clock),
        "housekeeping": housekeeping,
    }
    work = TimerJobs(jobs=jobs, clock=_clock)
    return Timed(timer="deadletter", work=work.run, runs=_timer_runs())


@_once
def status() -> Status:
    """Return what tells how things are."""
    from shared.adapters.bounded import Bounded
    from shared.engine.status import Status, look

    situation = Bounded(
        lambda: look(_queues(), _timer_runs(), _clock),
        wait_seconds=4,
        keep_seconds=3,
        monotonic=time.monotonic,
    )
    return Status(counts=_counts(), situation=situation.get, admin_key=settings().admin_key)


@_once
def manage() -> Manage:
    """Return the management API."""
    from shared.adapters.cache import ForgetfulStore
    from shared.delivery.profile import limits_of
    from shared.delivery.profiles import PROFILES
    from shared.engine.manage.api import Manage
    from shared.subscriptions.deployment import Deployment

    return Manage(
        resources=ForgetfulStore(_tables(), _directory()),
        counts=_counts(),
        pusher=_pusher(),
        clock=_clock,
        deployment=Deployment(
            account=_account().account_name,
            profiles={name: limits_of(profile) for name, profile in PROFILES.items()},
            default_profile=settings().profile,
            allow_http=settings().allow_http,
        ),
        admin_key=settings().admin_key,
        public_url=settings().public_url,
        new_key=_new_key,
        new_id=_new_id,
        sleep=time.sleep,
    )


@_once
def _rules() -> Rules:
    from shared.engine.rules import Rules

    return Rules(
        topics=_directory(),
        default_profile=settings().profile,
        time_scale=settings().time_scale,
        honor_retry_after=settings().honor_retry_after,
        probation_counts_attempt=settings().probation_counts_attempt,
        probation_ends_events=settings().probation_ends_events,
    )


@_once
def _health() -> HealthTracker:
    from shared.adapters.health_table import TableHealth
    from shared.engine.health import HealthTracker

    return HealthTracker(TableHealth(_tables(), time.monotonic), _clock, Lock())


@_once
def _requeue() -> Requeue:
    from shared.engine.requeue import Requeue

    return Requeue(sender=_queues(), clock=_clock, sleep=time.sleep)


@_once
def _timer_runs() -> TimerRuns:
    from shared.engine.timer_runs import TimerRuns

    return TimerRuns(state=_tables(), clock=_clock)


@_once
def _records() -> PoisonRecords:
    from shared.engine.poison_records import PoisonRecords

    return PoisonRecords(store=_dead_letter_blobs(), clock=_clock, new_id=_new_id)


@_once
def _intake() -> Intake:
    from shared.engine.receiving import Intake

    return Intake(receiver=_queues(), records=_records(), clock=_clock)


@_once
def _invocations() -> ThreadPoolExecutor:
    from shared.adapters.push_slots import THREADS

    # A run that has released its invocation holds a thread of the pool, or it ends.
    return ThreadPoolExecutor(INVOCATIONS + THREADS.total, thread_name_prefix="deliver")
