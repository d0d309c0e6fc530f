"""Composes delivering, for both queue triggers."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from shared.delivery.messages.message import ReplayStep
from shared.delivery.pace import Limit
from shared.engine.caching.health_table import OffLoopHealth
from shared.engine.delivering.attempt_recorder import AttemptHistory
from shared.engine.delivering.budget import MESSAGES, PUSHES, Budget, Places
from shared.engine.delivering.deliver import Deliver
from shared.engine.delivering.endpoint_registry import Endpoints
from shared.engine.delivering.in_flight import InFlightRequest
from shared.engine.delivering.parts import PartJudge
from shared.engine.delivering.processes import Processes
from shared.engine.delivering.push import Push
from shared.engine.delivering.results import Attempted, Shortage
from shared.engine.ports import OffLoop, Queue
from shared.wiring import local_host, storage
from shared.wiring.outbound import http_pusher, pusher
from shared.wiring.process import CLOCK, descriptors, once, spare_what_lasts, threads
from shared.wiring.settings import settings
from shared.wiring.tracing import spans

if TYPE_CHECKING:
    from shared.engine.replaying.step import RunSteps

THREADS = 4  # for what waits for storage's SDKs; while they compute, the event loop waits
ROW_THREADS = 1  # for attempt rows


@once
def deliver() -> Deliver:
    requeue, metrics, off_loop = storage.requeue(), storage.metrics(), _off_loop()
    parts = PartJudge(
        subscriptions=storage.resource_cache(),
        payloads=storage.payloads(),
        terms=storage.deployment_terms(),
        records=storage.poison_records(),
        metrics=metrics,
        clock=CLOCK,
    )
    endpoints = Endpoints(
        budget=Budget(pushes=min(PUSHES, descriptors() // 2)),
        push=_push(),
        reserve_connection=http_pusher().reserve_connection,
        as_cached=partial(parts.as_cached, off_loop=off_loop),
        clock=CLOCK,
        limit=Limit.up_to(settings().endpoint_limit),
        processes=Processes(
            rows=storage.resources(), clock=CLOCK, off_loop=off_loop, name=secrets.token_hex(8)
        ),
        health=OffLoopHealth(storage.health(), off_loop),
        metrics=metrics,
        clock_records=storage.clock_records(),
    )
    local_host.at_stop(endpoints.stop)
    local_host.at_stop(http_pusher().stop)
    history = AttemptHistory(
        log=storage.attempts(),
        off_loop=threads().pool("attempts", ROW_THREADS),
        logging=settings().attempt_log,
        clock=CLOCK,
    )
    local_host.at_end(history.write_all)
    composed = Deliver(
        parts=parts,
        endpoints=endpoints,
        places={queue: Places(total=MESSAGES) for queue in (Queue.DELIVERIES, Queue.RETRIES)},
        requeue=requeue,
        history=history,
        clock=CLOCK,
        jitter=random.random,
        metrics=metrics,
        clock_records=storage.clock_records(),
        off_loop=off_loop,
        replay=_replay,
    )
    spare_what_lasts()
    return composed


def _push() -> Callable[[InFlightRequest], Coroutine[Any, Any, Attempted | Shortage]]:
    push = Push(
        pusher=pusher(),
        clock=CLOCK,
        new_span_id=_new_span_id if settings().trace_context else None,
        has_replay_header=settings().replay_header,
        keeps_answers=settings().endpoint_answers,
    )
    traced = spans()
    return partial(traced.attempt, push) if traced else push


def _replay(step: ReplayStep) -> None:
    _replay_steps().run(step)


@once
def _replay_steps() -> RunSteps:
    from shared.engine.replaying.step import RunSteps  # for the few deployments that replay

    return RunSteps(
        jobs=storage.replay_jobs(),
        rows=storage.resources(),
        payloads=storage.payloads(),
        reader=storage.dead_letters(),
        topics=storage.resource_cache(),
        subscriptions=storage.resource_cache(),
        requeue=storage.blocking_requeue(),
        terms=storage.deployment_terms(),
        clock=CLOCK,
        monotonic=time.monotonic,
    )


def _new_span_id() -> str:
    return secrets.token_hex(8)


@once
def _off_loop() -> OffLoop:
    return threads().pool("deliver", THREADS)
