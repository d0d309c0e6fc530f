"""Composes the jobs of both timers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from shared.engine.ports import OffLoop
from shared.engine.timers.dead_letters import WriteDeadLetters
from shared.engine.timers.housekeeping import Housekeeping
from shared.engine.timers.poison import ReturnPoison
from shared.engine.timers.queue_watch import WatchQueues
from shared.engine.timers.receiving import Intake
from shared.engine.timers.source_events import BlobNotices, SourceEvents
from shared.engine.timers.timer_runs import Job, Timer
from shared.engine.timers.waiting_events import WatchWaiting
from shared.engine.timers.wake import Wake
from shared.events.event import Event
from shared.events.notices import WrittenBlob
from shared.events.topic import Topic
from shared.wiring import storage
from shared.wiring.process import CLOCK, new_id, once, threads
from shared.wiring.settings import log_doubtful_settings

_BLOB_THREADS = 16


@once
def wake() -> Timer:
    work = Wake(intake=_intake(), requeue=storage.blocking_requeue(), clock=CLOCK)
    return _timer("wake", {"wake": work})


@once
def deadletter_timer() -> Timer:
    # Only this timer needs them: cold starts.
    from shared.engine.operations.trouble_notices import TroubleNotices

    log_doubtful_settings()
    queues = WatchQueues(watch=storage.queues(), clock=CLOCK)
    work: dict[str, Job] = {
        "dead letters": WriteDeadLetters(
            intake=_intake(),
            receiver=storage.queues(),
            sender=storage.sender(),
            on_loop=threads().on_loop,
            payloads=storage.payloads(),
            store=storage.dead_letters(),
            clock=CLOCK,
            new_id=new_id,
            metrics=storage.metrics(),
            notices=blob_notices(),
        ),
        "poison": ReturnPoison(
            intake=_intake(),
            receiver=storage.queues(),
            requeue=storage.blocking_requeue(),
        ),
        "queues": queues,
        "waiting": WatchWaiting(
            queues=queues, counts=storage.counts(), state=storage.resources(), clock=CLOCK
        ),
        "troubles": TroubleNotices(
            source_events=_source_events(),
            subscriptions=storage.resource_cache(),
            counts=storage.counts(),
            attempts=storage.attempts(),
            health=storage.health(),
            replays=lambda: storage.replay_jobs().list(),
            state=storage.resources(),
            clock=CLOCK,
        ),
        "housekeeping": Housekeeping(
            payloads=storage.payloads(),
            attempts=storage.attempts(),
            counts=storage.counts(),
            state=storage.resources(),
            clock=CLOCK,
        ),
    }
    return _timer("deadletter", work)


def _timer(name: str, jobs: Mapping[str, Job]) -> Timer:
    return Timer(
        name=name, jobs=jobs, state=storage.resources(), clock=CLOCK, monotonic=time.monotonic
    )


@once
def blob_notices() -> BlobNotices:
    return BlobNotices(
        source_events=_source_events(),
        new_id=new_id,
        account=storage.account().account_name,
    )


async def blob_changed(blob: Mapping[str, Any]) -> None:
    """Publish what the local host reports of a blob: the members of ``WrittenBlob``."""
    await _blob_threads()(partial(blob_notices().changed, WrittenBlob(**blob)))


@once
def _blob_threads() -> OffLoop:
    return threads().pool("blobs", _BLOB_THREADS)


def _source_events() -> SourceEvents:
    cache = storage.resource_cache()
    return SourceEvents(topics=cache, subscriptions=cache, accept=_accept)


def _accept(topic: Topic, events: Sequence[Event], publish_id: str) -> None:
    from shared.wiring.publishing import publish  # for the few deployments that subscribe

    threads().on_loop(publish().accept(topic, events, publish_id))


@once
def _intake() -> Intake:
    return Intake(
        receiver=storage.queues(),
        records=storage.poison_records(),
        payloads=storage.payloads(),
        clock=CLOCK,
        monotonic=time.monotonic,
        clock_records=storage.clock_records(),
        end_replay=lambda step: storage.replay_jobs().fail(step),
        metrics=storage.metrics(),
    )
