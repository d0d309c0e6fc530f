"""Composes delivering, for both queue triggers, and runs it on threads of its own."""

from __future__ import annotations

import asyncio
import contextvars
import random
import secrets
import time
from threading import Lock

from shared import telemetry
from shared.adapters.awake_clock import awake_seconds
from shared.adapters.push_threads import PatientPool, PooledThreads
from shared.adapters.storage.health_table import TableHealth
from shared.delivery.messages.message import ReplayStep
from shared.delivery.slots.slots import IN_FLIGHT, THREADS, Slots
from shared.engine.delivering.attempt_history import AttemptHistory
from shared.engine.delivering.deliver import Deliver
from shared.engine.delivering.gates import Gates
from shared.engine.delivering.parts import Parts
from shared.engine.delivering.push import Push
from shared.engine.delivering.shared_health import SharedHealth
from shared.wiring import storage
from shared.wiring.outbound import pusher, tokens
from shared.wiring.process import CLOCK, once
from shared.wiring.settings import settings

INVOCATIONS = 2 * IN_FLIGHT.total  # at a time, of the two queue functions


async def run(body: bytes) -> None:
    """
    Deliver one queue message on a thread of the app's own.

    So slow endpoints occupy none of the worker's threads, which publishers need where all functions
    share a process. A delivery that fails after its invocation has ended is logged; its message
    comes again.
    """
    loop = asyncio.get_running_loop()
    ended_early: asyncio.Future[None] = loop.create_future()

    def end_early() -> None:
        loop.call_soon_threadsafe(ended_early.set_result, None)

    # The context of the invocation goes along: the local host logs the function's name from it.
    context = contextvars.copy_context()
    work = loop.run_in_executor(_invocations(), context.run, deliver().run, body, end_early)
    await asyncio.wait({work, ended_early}, return_when=asyncio.FIRST_COMPLETED)
    if work.done():
        await work
    else:
        work.add_done_callback(_log_failure)


def _log_failure(work: asyncio.Future[None]) -> None:
    if not work.cancelled() and (error := work.exception()):
        telemetry.error("delivery.failed", detail=repr(error))


@once
def deliver() -> Deliver:
    """Return the use case of both triggers."""
    requeue, metrics = storage.requeue(), storage.metrics()
    parts = Parts(
        subscriptions=storage.resource_cache(),
        payloads=storage.payloads(),
        terms=storage.deployment_terms(),
        requeue=requeue,
        records=storage.poison_records(),
        metrics=metrics,
        clock=CLOCK,
    )
    return Deliver(
        parts=parts,
        gates=_gates(),
        requeue=requeue,
        history=AttemptHistory(log=storage.attempts(), logging=settings().attempt_log, clock=CLOCK),
        clock=CLOCK,
        jitter=random.random,
        new_lock=Lock,
        tokens=tokens(),
        metrics=metrics,
        clock_records=storage.clock_records(),
        replay=_replay,
    )


def _replay(step: ReplayStep) -> None:
    from shared.wiring.replaying import replay  # for the few deployments that replay

    replay().run(step)


def _new_span_id() -> str:
    return secrets.token_hex(8)


def _gates() -> Gates:
    lock = Lock()
    return Gates(
        health=SharedHealth(
            TableHealth(storage.resources(), time.monotonic),
            CLOCK,
            lock,
            storage.metrics(),
            storage.clock_records(),
        ),
        slots=Slots(awake_seconds),
        threads=PooledThreads(),
        push=Push(
            pusher=pusher(),
            clock=CLOCK,
            new_span_id=_new_span_id if settings().trace_context else None,
            has_replay_header=settings().replay_header,
        ),
        clock=CLOCK,
        monotonic=awake_seconds,
        lock=lock,
    )


@once
def _invocations() -> PatientPool:
    # Deliveries that go on after their invocation are about as many as pushes under way.
    return PatientPool(INVOCATIONS + THREADS.total, thread_name_prefix="deliver")
