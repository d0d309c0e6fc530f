"""Both queue triggers, and the threads they run on."""

from __future__ import annotations

import asyncio
import random
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

from shared import telemetry
from shared.adapters.push_pool import ThreadedPushPool
from shared.adapters.storage.health_table import TableHealth
from shared.delivery.slots.slots import THREADS
from shared.engine.delivering.attempt_history import AttemptHistory
from shared.engine.delivering.deliver import Deliver
from shared.engine.delivering.pushing import AllowedRates
from shared.engine.delivering.shared_health import HealthTracker
from shared.wiring import storage
from shared.wiring.once import once
from shared.wiring.outbound import pusher, tokens
from shared.wiring.process import CLOCK, settings
from shared.wiring.terms import deployment_terms

INVOCATIONS = 48  # of the two queue functions at a time: batchSize + newBatchThreshold each


async def run(body: bytes) -> None:
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

    work = loop.run_in_executor(_invocations(), deliver().run, body, release)
    await asyncio.wait({work, released}, return_when=asyncio.FIRST_COMPLETED)
    if work.done():
        await work
    else:
        work.add_done_callback(_tell_failure)


def _tell_failure(work: asyncio.Future[None]) -> None:
    if not work.cancelled() and (error := work.exception()):
        telemetry.error("delivery.failed", detail=repr(error))


@once
def deliver() -> Deliver:
    """Return the use case of both triggers."""
    return Deliver(
        subscriptions=storage.directory(),
        payloads=storage.payloads(),
        pusher=pusher(),
        pool=ThreadedPushPool(),
        requeue=storage.requeue(),
        history=AttemptHistory(log=storage.attempts(), logging=settings().attempt_log, clock=CLOCK),
        clock=CLOCK,
        jitter=random.random,
        terms=deployment_terms(),
        new_lock=Lock,
        health=HealthTracker(TableHealth(storage.tables(), time.monotonic), CLOCK, Lock()),
        rates=AllowedRates(CLOCK, Lock()),
        tokens=tokens(),
        metrics=storage.metrics(),
    )


@once
def _invocations() -> ThreadPoolExecutor:
    # A run that has released its invocation holds a thread of the pool, or it ends.
    return ThreadPoolExecutor(INVOCATIONS + THREADS.total, thread_name_prefix="deliver")
