"""
Composes the use cases: the one place that says which parts each of them has.

A process makes one `App` of what it hands over, and uses its attributes. Each is built at its first
use, and what it consists of is imported then: a cold start imports what one function needs.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from shared import telemetry
from shared.clock import ClockNote
from shared.once import once
from shared.settings import Settings
from shared.settings.storage_settings import with_own_account
from shared.tasks import Tasks

if TYPE_CHECKING:
    from shared.delivery.messages.message import ReplayStep
    from shared.engine.caching.buffered_metrics import BufferedMetrics
    from shared.engine.caching.health_table import TableHealth
    from shared.engine.caching.resource_cache import InvalidatingStore
    from shared.engine.delivering.attempt_history import AttemptHistory
    from shared.engine.delivering.attempt_recorder import AttemptRecorder
    from shared.engine.delivering.deliver import Deliver
    from shared.engine.delivering.endpoints import Endpoints
    from shared.engine.delivering.in_hand import (
        Attempted,
        MessagesInHand,
        PushRequest,
        Shortage,
    )
    from shared.engine.delivering.judge import PartJudge
    from shared.engine.delivering.push import Push
    from shared.engine.keeping.clock_records import ClockRecords
    from shared.engine.keeping.deployment_terms import DeploymentTerms
    from shared.engine.keeping.ends import Ends
    from shared.engine.keeping.poison_records import PoisonRecords
    from shared.engine.keeping.requeue import Requeue
    from shared.engine.manage.api import Manage
    from shared.engine.manage.az_login import AzLogin
    from shared.engine.manage.endpoint_validation import Validate
    from shared.engine.manage.route_table import RouteTable
    from shared.engine.operations.operator_authorization import Operators
    from shared.engine.operations.status import Status
    from shared.engine.operations.trouble_notices import TroubleNotices
    from shared.engine.ports import (
        Chance,
        Commits,
        Directory,
        Metrics,
        OffLoop,
        Pusher,
        Queue,
        ReserveConnection,
        Store,
        Threads,
        TokenVerifier,
    )
    from shared.engine.ports.settling import Ended
    from shared.engine.publishing.publish import Publish
    from shared.engine.publishing.publish_report import PublishReport
    from shared.engine.replaying.job import ReplayJob
    from shared.engine.replaying.jobs import ReplayJobs
    from shared.engine.replaying.step import RunSteps
    from shared.engine.timers.dead_letters import WriteDeadLetters
    from shared.engine.timers.housekeeping import Housekeeping
    from shared.engine.timers.poison import ReturnPoison
    from shared.engine.timers.preparation import Preparation
    from shared.engine.timers.queue_watch import WatchQueues
    from shared.engine.timers.receiving import Intake
    from shared.engine.timers.source_events import BlobNotices, SourceEvents
    from shared.engine.timers.timer_runs import Job, Timer
    from shared.engine.timers.waiting_events import WatchWaiting
    from shared.engine.timers.wake import Wake
    from shared.events.event import Event
    from shared.events.notices import WrittenBlob
    from shared.events.topic import Topic
    from shared.http import Answering, HttpAnswer, HttpRequest
    from shared.subscriptions.subscription import SubscriptionKey
    from shared.watched_clock import WatchedClock

#: The threads of each pool, but those of the group commit (`MAX_UNDER_WAY`) and of adapters.
POOLS = {
    "attempts": 1,  # for rows of attempts
    "catalogue": 1,
    "blobs": 16,  # for what other programs do to blobs
    "deliver": 4,  # for what waits for storage; while they compute, the event loop waits
    "last counts": 1,
    "publish": 6,  # for requests that are large, or wait for storage or keys
    # Partitions that hang delay publishers and deliveries of other topics only if there are so
    # many.
    "topics": 16,
}

COUNTS_WRITTEN_EVERY = timedelta(seconds=10)  # at most: what is written has changed
PREPARED_AGAIN_AFTER = timedelta(minutes=1)  # storage has failed

V = TypeVar("V")


class Tracing(Protocol):
    """Traces publications and attempts."""

    async def publication(self, answer: Answering, request: HttpRequest, /) -> HttpAnswer:
        """Answer a publish request within a span."""

    async def attempt(self, push: Push, request: PushRequest, /) -> Attempted | Shortage:
        """Push a request within a span."""

    def counting(self, commits: Commits, /) -> Commits:
        """Return *commits* that tell the span of a publication what is in it."""


class Outbound(Protocol):
    """What sends requests to endpoints and elsewhere, on the app's event loop."""

    @property
    def pusher(self) -> Pusher:
        """The sender of requests to endpoints."""

    @property
    def reserve_connection(self) -> ReserveConnection:
        """What reserves connections to endpoints."""

    @property
    def most(self) -> int:
        """How many requests may be under way."""

    @property
    def app_addresses(self) -> frozenset[tuple[str, int]]:
        """The hosts and ports under which the app itself is reached."""

    @property
    def tracing(self) -> Tracing | None:
        """``None``: nobody wants traces."""

    def tokens(self, audiences: Sequence[str]) -> TokenVerifier:
        """Return what verifies tokens for *audiences*; asked only if the settings accept tokens."""

    def stop(self) -> None:
        """Let no request wait for a connection any more."""


class BackgroundWork(NamedTuple):
    """
    What an app does by itself.

    *call*, which may wait, is made at once, and *period* after each end, until it returns ``True``.
    """

    name: str
    period: timedelta
    call: Callable[[], bool]

    def run(self, sleep: Callable[[float], object]) -> None:
        """Do it on the calling thread; *sleep* takes seconds."""
        while not self.call():
            sleep(self.period.total_seconds())


class App:
    """
    All use cases of a process, on its *settings* and what else it hands over.

    *store* and *outbound* are made at the first need: the console needs neither. *clock* tells its
    jumps, and is this app's alone. Whoever runs the app decides on what its `background` runs.
    """

    health_kept = 3.0  # seconds for which an answer of health serves: it is public
    status_kept = 10.0  # the same of what is read of all subscriptions, and of their counts
    health_waits = 4.0  # seconds, while storage hangs
    is_import = False  # whether what is managed is taken over from another deployment

    def __init__(  # noqa: PLR0913 - this is all, and each by its name
        self,
        *,
        settings: Settings,
        store: Callable[[], Store],
        outbound: Callable[[], Outbound],
        clock: WatchedClock,
        threads: Threads,
        chance: Chance,
    ) -> None:
        self._settings = settings
        self._make_store = store
        self._make_outbound = outbound
        self._clock = clock
        self._threads = threads
        self._chance = chance
        self._tasks = Tasks()
        # Hears the end of each delivery, from when it is set, on any thread.
        self.ended: Callable[[Ended], object] = _hear_nothing
        self._at_stop: list[Callable[[], object]] = []
        self._at_end: list[Callable[[], Awaitable[object]]] = []
        # On a thread, since composing what records it takes long; that begins another for storage.
        clock.jumped = lambda note: self._try_to_begin(partial(self._record, note))

    def stop(self) -> None:
        """Begin to stop, on the event loop: what waits does not wait any more."""
        for each in self._at_stop:
            with _logged_failure():
                each()

    async def end(self) -> None:
        """Store what is in memory, on the event loop, once nothing runs any more."""
        for each in self._at_end:
            with _logged_failure():
                await each()

    @property
    def background(self) -> Sequence[BackgroundWork]:
        return (
            BackgroundWork("counts", COUNTS_WRITTEN_EVERY, self._write_counts),
            BackgroundWork("preparation", PREPARED_AGAIN_AFTER, self._prepare),
        )

    def leftovers(self) -> list[str]:
        """
        Name what has not ended: tasks of the engine, publish requests, messages in hand, what is in
        lines or uses the budget, jobs of timers, counts that are not stored.

        On the event loop, or where it does not run.
        """
        names = "publish", "deliver", "wake_timer", "deadletter_timer", "_buffered_metrics"
        built = (vars(self).get(name) for name in names)  # nothing is composed for it
        of_parts = (part.leftovers() for part in built if part)
        return [*self._tasks.leftovers(), *chain.from_iterable(of_parts)]

    async def blob_changed(self, blob: WrittenBlob) -> None:
        """Publish what another program did to a blob of the app's own account."""
        await self._blob_pool(partial(self.blob_notices.changed, blob))

    # ── What use cases share ──

    @once
    def store(self) -> Store:
        return self._make_store()

    @once
    def outbound(self) -> Outbound:
        return self._make_outbound()

    @once
    def directory(self) -> Directory:
        from shared.engine.caching.resource_cache import ResourceCache

        return ResourceCache(
            self.store.documents,
            cache_for=self._settings.cache_for,
            threads=self._threads,
            off_loop=self._pool("topics"),
            tasks=self._tasks,
        )

    @once
    def documents(self) -> InvalidatingStore:
        """The documents, for whoever changes what this process then sees at once."""
        from shared.engine.caching.resource_cache import InvalidatingStore

        return InvalidatingStore(self.store.documents, self.directory)

    @once
    def health(self) -> TableHealth:
        from shared.engine.caching.health_table import TableHealth

        return TableHealth(
            self.store.documents,
            threads=self._threads,
            off_loop=self._deliver_pool,
            tasks=self._tasks,
            clock=self._clock,
            record=self._record,
        )

    @once
    def terms(self) -> DeploymentTerms:
        from shared.engine.keeping.deployment_terms import DeploymentTerms

        return DeploymentTerms(
            topics=self.directory,
            default_profile=self._settings.profile,
            time_scale=self._settings.time_scale,
            account=self.store.account,
            honor_retry_after=self._settings.honor_retry_after,
            probation_counts_attempt=self._settings.probation_counts_attempt,
            probation_ends_events=self._settings.probation_ends_events,
        )

    @once
    def metrics(self) -> Metrics:
        self._at_end.append(partial(self._pool("last counts"), self._buffered_metrics.flush))
        return self._buffered_metrics

    @once
    def clock_records(self) -> ClockRecords:
        from shared.engine.keeping.clock_records import ClockRecords

        return ClockRecords(
            state=self.store.documents,
            clock=self._clock,
            monotonic=self._threads.monotonic,
            begin=self._try_to_begin,
        )

    @once
    def ends(self) -> Ends:
        from shared.engine.keeping.ends import Ends

        return Ends(metrics=self.metrics, sink=self._hear)

    @once
    def poison_records(self) -> PoisonRecords:
        from shared.engine.keeping.poison_records import PoisonRecords

        return PoisonRecords(
            store=self.store.dead_letters,
            clock=self._clock,
            new_id=self._chance.secret_id,
            hear=self.ends.hear,
        )

    @once
    def requeue(self) -> Requeue:
        from shared.engine.keeping.requeue import Requeue

        return Requeue(
            sender=self.store.sender,
            traits=self.store.traits,
            clock=self._clock,
            sleep=asyncio.sleep,
        )

    @once
    def replays(self) -> ReplayJobs:
        from shared.engine.replaying.jobs import ReplayJobs

        return ReplayJobs(
            rows=self.store.documents,
            sender=self.store.sender,
            on_loop=self._threads.on_loop,
            clock=self._clock,
            backoff=self._backoff,
        )

    # ── Publishing ──

    @once
    def publish(self) -> Publish:
        from shared.engine.publishing.publish import Publish, PublisherAuthorization
        from shared.engine.publishing.publish_report import PublishReport

        report = PublishReport(
            metrics=self.metrics, clock=self._clock, logging=self._settings.publish_log
        )
        tracing = self.outbound.tracing
        return Publish(
            authorization=PublisherAuthorization(
                clock=self._clock,
                tokens=self._tokens(self._settings.entra_audience),
                client_ip_header=self._settings.client_ip_header,
                public_url=self._settings.public_url,
            ),
            topics=self.directory,
            subscriptions=self.directory,
            commits=self._commits(report),
            clock=self._clock,
            new_id=self._chance.id,
            report=report,
            payloads_kept_for=self.terms.payloads_kept_for,
            message_size=self.store.traits.message_size,
            off_loop=self._pool("publish", withdraws=True),
            fresh=self._fresh(),
            within_span=tracing.publication if tracing else None,
        )

    # ── Delivering ──

    @once
    def deliver(self) -> Deliver:
        from shared.engine.delivering.deliver import Deliver

        endpoints = self._endpoints()
        self._at_stop += endpoints.stop, self.outbound.stop
        self._at_end.append(self.history.write_all)
        return Deliver(
            judge=self.judge,
            endpoints=endpoints,
            in_hand=self._in_hand(),
            requeue=self.requeue,
            recorder=self.recorder,
            clock=self._clock,
            jitter=self._chance.jitter,
            clock_records=self.clock_records,
            off_loop=self._deliver_pool,
            replay=self._replay,
        )

    @once
    def judge(self) -> PartJudge:
        from shared.engine.delivering.judge import PartJudge

        return PartJudge(
            subscriptions=self.directory,
            topics=self.directory,
            payloads=self.store.payloads,
            terms=self.terms,
            records=self.poison_records,
            metrics=self.metrics,
            clock=self._clock,
        )

    @once
    def push(self) -> Push:
        from shared.engine.delivering.push import Push

        return Push(
            pusher=self.outbound.pusher,
            clock=self._clock,
            new_span_id=self._new_span_id if self._settings.trace_context else None,
            has_replay_header=self._settings.replay_header,
            keeps_answers=self._settings.endpoint_answers,
        )

    @once
    def history(self) -> AttemptHistory:
        from shared.engine.delivering.attempt_history import AttemptHistory

        return AttemptHistory(
            log=self.store.attempts,
            off_loop=self._pool("attempts"),
            tasks=self._tasks,
            logging=self._settings.attempt_log,
            clock=self._clock,
            logs_successes=not self.store.traits.keeps_attempts,
        )

    @once
    def recorder(self) -> AttemptRecorder:
        from shared.engine.delivering.attempt_recorder import AttemptRecorder

        return AttemptRecorder(
            history=self.history, metrics=self.metrics, ends=self.ends, clock=self._clock
        )

    @once
    def replay(self) -> RunSteps:
        from shared.engine.replaying.step import RunSteps

        return RunSteps(
            jobs=self.replays,
            rows=self.store.documents,
            payloads=self.store.payloads,
            reader=self.store.dead_letters,
            topics=self.directory,
            subscriptions=self.directory,
            requeue=self.requeue,
            on_loop=self._threads.on_loop,
            terms=self.terms,
            message_size=self.store.traits.message_size,
            clock=self._clock,
            monotonic=self._threads.monotonic,
        )

    # ── Timers ──

    @once
    def timers(self) -> tuple[str, ...]:
        """The timers that are to run; `wake` is, where messages may not hide for ever."""
        return ("deadletter", "wake") if self.store.traits.hiding else ("deadletter",)

    @once
    def wake_timer(self) -> Timer:
        return self._timer("wake", {"wake": self.wake})

    @once
    def deadletter_timer(self) -> Timer:
        jobs: dict[str, Job] = {"dead letters": self.write_dead_letters}
        if self.store.traits.has_poison_queues:
            jobs["poison"] = self.return_poison
        jobs |= {
            "queues": self.watch_queues,
            "waiting": self.watch_waiting,
            "troubles": self.trouble_notices,
            "housekeeping": self.housekeeping,
        }
        return self._timer("deadletter", jobs)

    @once
    def preparation(self) -> Preparation:
        from shared.engine.timers.preparation import Preparation

        return Preparation(
            watch=self.store.queues,
            queues=self.store.traits.queues,
            state=self.store.documents,
            clock=self._clock,
        )

    @once
    def wake(self) -> Wake:
        from shared.engine.timers.wake import Wake

        return Wake(
            intake=self.intake,
            requeue=self.requeue,
            on_loop=self._threads.on_loop,
            message_size=self.store.traits.message_size,
            clock=self._clock,
        )

    @once
    def write_dead_letters(self) -> WriteDeadLetters:
        from shared.engine.timers.dead_letters import WriteDeadLetters

        return WriteDeadLetters(
            intake=self.intake,
            receiver=self.store.queues,
            sender=self.store.sender,
            on_loop=self._threads.on_loop,
            payloads=self.store.payloads,
            store=self.store.dead_letters,
            clock=self._clock,
            new_id=self._chance.secret_id,
            metrics=self.metrics,
            ends=self.ends,
            notices=self.blob_notices,
        )

    @once
    def return_poison(self) -> ReturnPoison:
        from shared.engine.timers.poison import ReturnPoison

        return ReturnPoison(
            intake=self.intake,
            receiver=self.store.queues,
            requeue=self.requeue,
            on_loop=self._threads.on_loop,
        )

    @once
    def watch_queues(self) -> WatchQueues:
        from shared.engine.timers.queue_watch import WatchQueues

        return WatchQueues(
            watch=self.store.queues,
            queues=self.store.traits.queues,
            clock=self._clock,
            monotonic=self._threads.monotonic,
        )

    @once
    def watch_waiting(self) -> WatchWaiting:
        from shared.engine.timers.waiting_events import WatchWaiting

        return WatchWaiting(
            queues=self.watch_queues,
            store=self.store,
            clock=self._clock,
        )

    @once
    def trouble_notices(self) -> TroubleNotices:
        from shared.engine.operations.trouble_notices import TroubleNotices

        return TroubleNotices(
            source_events=self._source_events,
            subscriptions=self.directory,
            counts=self.store.counts,
            attempts=self.store.attempts,
            health=self.health,
            replays=self._list_replays,
            state=self.store.documents,
            clock=self._clock,
        )

    @once
    def housekeeping(self) -> Housekeeping:
        from shared.engine.timers.housekeeping import Housekeeping

        return Housekeeping(
            payloads=self.store.payloads,
            attempts=self.store.attempts,
            counts=self.store.counts,
            state=self.store.documents,
            clock=self._clock,
        )

    @once
    def blob_notices(self) -> BlobNotices:
        from shared.engine.timers.source_events import BlobNotices

        return BlobNotices(
            source_events=self._source_events,
            new_id=self._chance.secret_id,
            account=self.store.account,
        )

    @once
    def intake(self) -> Intake:
        from shared.engine.timers.receiving import Intake

        return Intake(
            receiver=self.store.queues,
            records=self.poison_records,
            payloads=self.store.payloads,
            clock=self._clock,
            monotonic=self._threads.monotonic,
            clock_records=self.clock_records,
            end_replay=self._end_replay,
            metrics=self.metrics,
        )

    # ── Managing and operating ──

    @once
    def operators(self) -> Operators:
        from shared.engine.operations.operator_authorization import Operators

        audiences = self._settings.entra_management_audience
        return Operators(
            admin_key=self._settings.admin_key,
            admin_key_2=self._settings.admin_key_2,
            reader_key=self._settings.reader_key,
            tokens=self._tokens(audiences),
            audience=audiences[0] if audiences else "",
        )

    @once
    def manage(self) -> Manage:
        from shared.engine.manage.api import Manage

        return Manage(
            routes=self.route_table.routes(),
            operators=self.operators,
            public_url=self._settings.public_url,
            has_local_shortcuts=self._settings.local_shortcuts,
            is_import=self.is_import,
            new_id=self._chance.secret_id,
        )

    @once
    def route_table(self) -> RouteTable:
        from shared.arm.deployment_capabilities import DeploymentCapabilities
        from shared.delivery.profiles import PROFILES
        from shared.engine.caching.cache import PERIODS
        from shared.engine.manage.route_table import RouteTable

        return RouteTable(
            resources=self.documents,
            counts=self.store.counts,
            attempts=self.store.attempts,
            dead_letters=self.store.dead_letters,
            health=self.health,
            pusher=self.outbound.pusher,
            threads=self._threads,
            tasks=self._tasks,
            clock=self._clock,
            deployment=DeploymentCapabilities(
                account=self.store.account,
                profiles=PROFILES,
                default_profile=self._settings.profile,
                dead_letter_accounts=frozenset(self._settings.deadletter_accounts),
                queue_accounts=self._settings.queue_accounts,
                has_queues=self.store.traits.has_other_queues,
                allow_http=self._settings.allow_http,
                has_webhook_identity=self._settings.has_webhook_identity,
                has_client_ip_header=self._settings.client_ip_header is not None,
                app_addresses=self.outbound.app_addresses,
            ),
            terms=self.terms,
            known_for=PERIODS * self._settings.cache_for,
            metrics=self.metrics,
            replays=self.replays,
            new_key=self._new_key,
            keeps_answers=self._settings.endpoint_answers,
            new_id=self._chance.secret_id,
            backoff=self._backoff,
        )

    @once
    def validate(self) -> Validate:
        from shared.engine.manage.endpoint_validation import Validate

        return Validate(resources=self.documents, clock=self._clock, backoff=self._backoff)

    @once
    def az_login(self) -> AzLogin:
        from shared.engine.manage.az_login import AzLogin

        return AzLogin(
            is_on=self._settings.az_login,
            operators=self.operators,
            public_url=self._settings.public_url,
        )

    @once
    def status(self) -> Status:
        from shared.delivery.profiles import PROFILES
        from shared.engine.caching.cache import Cache
        from shared.engine.operations.activity import read_activities
        from shared.engine.operations.status import Snapshot, Status, take_snapshot
        from shared.engine.operations.subscription_state import held_subscriptions
        from shared.engine.operations.topic_states import topic_states
        from shared.events.topic import DEPLOYMENT

        settings, store, clock = self._settings, self.store, self._clock
        accounts = with_own_account(store.account, settings.deadletter_accounts)
        delay = PROFILES[settings.profile].dead_letter_delay / settings.time_scale
        snapshots = Cache[Snapshot | None](self._threads, lambda _: self.health_kept)

        def snapshot() -> Snapshot | None:
            read = partial(take_snapshot, store, clock)
            return snapshots.get_within("", read, self.health_waits)

        return Status(
            counts=store.counts,
            measures=store.measures,
            fault=lambda: store.fault,
            snapshot=snapshot,
            held=self._kept(lambda: held_subscriptions(store.documents, clock.now())),
            topics=lambda seen: topic_states(
                store.documents, clock.now(), (*accounts, DEPLOYMENT), seen, accounts
            ),
            activities=self._kept(lambda: read_activities(store, clock.now(), delay)),
            replays=self._list_replays,
            operators=self.operators,
            timers=self.timers,
            unset_schedules={
                timer: setting
                for timer, setting in settings.unset_schedules.items()
                if timer in self.timers
            },
        )

    # ── Parts of the above ──

    @once
    def _buffered_metrics(self) -> BufferedMetrics:
        from shared.engine.caching.buffered_metrics import BufferedMetrics

        return BufferedMetrics(
            self.store.counts,
            self._clock,
            self._threads,
            instance=self._chance.secret_id(),  # processes may be forks with one random state
            every=COUNTS_WRITTEN_EVERY,
        )

    def _prepare(self) -> bool:
        return self.preparation.run()

    def _write_counts(self) -> bool:
        counts: BufferedMetrics | None = vars(self).get("_buffered_metrics")
        if counts:  # something may have been counted
            counts.flush_if_due()
        return False

    def _try_to_begin(self, work: Callable[[], object]) -> None:
        """Begin work on a thread of its own; it is not done if there is none."""
        with suppress(RuntimeError):
            self._threads.begin(work)

    def _record(self, note: ClockNote, key: SubscriptionKey | None = None) -> None:
        self.clock_records.record(note, key)

    def _hear(self, ended: Ended) -> None:
        self.ended(ended)  # as it is set by then

    def _fresh(self) -> Callable[[], Awaitable[None]] | None:
        if (read := self.store.catalogue_version) is None:
            return None
        from shared.engine.caching.fresh_catalogue import FreshCatalogue

        off_loop = self._pool("catalogue")
        return FreshCatalogue(read, self.directory.forget_all, off_loop, self._tasks).ready

    def _commits(self, report: PublishReport) -> Commits:
        from shared.engine.publishing.commit import Commit
        from shared.engine.publishing.group_commit import MAX_UNDER_WAY, GroupCommit

        commits = GroupCommit(
            Commit(
                payloads=self.store.payloads,
                sender=self.store.sender,
                message_size=self.store.traits.message_size,
                # Threads that wait for no request's reads.
                off_loop=self._threads.pool("commit", MAX_UNDER_WAY),
                report=report.published,
            ).run,
            self._tasks,
        )
        tracing = self.outbound.tracing
        return tracing.counting(commits) if tracing else commits

    def _in_hand(self) -> dict[Queue, MessagesInHand]:
        from shared.engine.delivering.in_hand import MessagesInHand
        from shared.engine.ports import Queue

        most = self.store.traits.most_in_hand
        return {queue: MessagesInHand(most=most) for queue in (Queue.DELIVERIES, Queue.RETRIES)}

    def _endpoints(self) -> Endpoints:
        from shared.delivery.pace import Limit
        from shared.engine.delivering.endpoints import Endpoints
        from shared.engine.delivering.processes import Processes
        from shared.engine.delivering.scheduler import PUSHES, Budget, Scheduler

        off_loop = self._deliver_pool
        scheduler = Scheduler(
            budget=Budget(pushes=min(PUSHES, self.outbound.most)),
            push=self._pushing(),
            reserve_connection=self.outbound.reserve_connection,
            as_cached=partial(self.judge.as_cached, off_loop=off_loop),
            clock=self._clock,
            processes=Processes(
                rows=self.store.documents,
                clock=self._clock,
                off_loop=off_loop,
                tasks=self._tasks,
                name=self._chance.secret(8).hex(),
            ),
            tasks=self._tasks,
        )
        return Endpoints(
            scheduler=scheduler,
            limit=Limit.up_to(self._settings.endpoint_limit),
            health=self.health,
            off_loop=off_loop,
            metrics=self.metrics,
        )

    def _pushing(self) -> Callable[[PushRequest], Coroutine[Any, Any, Attempted | Shortage]]:
        tracing = self.outbound.tracing
        return partial(tracing.attempt, self.push) if tracing else self.push

    # Few deployments replay: what a replay needs is imported when there is one.

    def _replay(self, step: ReplayStep) -> None:
        self.replay.run(step)

    def _end_replay(self, step: ReplayStep) -> None:
        self.replays.fail(step)

    def _list_replays(self) -> Sequence[ReplayJob]:
        return self.replays.list()

    def _timer(self, name: str, jobs: Mapping[str, Job]) -> Timer:
        from shared.engine.timers.timer_runs import Timer

        return Timer(
            name=name,
            jobs=jobs,
            state=self.store.documents,
            clock=self._clock,
            monotonic=self._threads.monotonic,
        )

    @once
    def _source_events(self) -> SourceEvents:
        from shared.engine.timers.source_events import SourceEvents

        return SourceEvents(
            topics=self.directory, subscriptions=self.directory, accept=self._accept
        )

    def _accept(self, topic: Topic, events: Sequence[Event], publish_id: str) -> None:
        self._threads.on_loop(self.publish.accept(topic, events, publish_id))

    def _tokens(self, audiences: Sequence[str]) -> TokenVerifier | None:
        return self.outbound.tokens(audiences) if self._settings.has_entra else None

    def _kept(self, read: Callable[[], V]) -> Callable[[], V]:
        """Return *read*, whose value is kept for some seconds."""
        from shared.engine.caching.cache import Cache

        values = Cache[V](self._threads, lambda _: self.status_kept)
        return lambda: values.get("", read)

    def _pool(self, name: str, *, withdraws: bool = False) -> OffLoop:
        return self._threads.pool(name, POOLS[name], withdraws=withdraws)

    @once
    def _deliver_pool(self) -> OffLoop:
        return self._pool("deliver")

    @once
    def _blob_pool(self) -> OffLoop:
        return self._pool("blobs")

    def _backoff(self, lost: int) -> None:
        """Wait after *lost* races for a document."""
        from shared.races import backoff_seconds

        self._threads.sleep(backoff_seconds(lost, self._chance.jitter()))

    def _new_key(self) -> str:
        return base64.b64encode(self._chance.secret(32)).decode("ascii")

    def _new_span_id(self) -> str:
        return self._chance.secret(8).hex()


def _hear_nothing(_: Ended) -> None:
    """Nobody wants to hear of ends."""


@contextmanager
def _logged_failure() -> Iterator[None]:
    """Log what fails in one step: the others are made all the same."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - nobody but the log could do anything about it
        telemetry.error("stop.failed", detail=repr(error))
