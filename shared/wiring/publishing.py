"""Composes publishing, for custom topics and topics of namespaces."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import TypeVar

from shared.adapters.group_commit import GroupCommit
from shared.adapters.push_threads import PatientPool
from shared.engine.publishing.commit import Commit
from shared.engine.publishing.gathering import MAX_UNDER_WAY
from shared.engine.publishing.publish import Publish
from shared.engine.publishing.publisher_authorization import PublisherAuthorization
from shared.errors import StorageUnavailable
from shared.wiring import storage
from shared.wiring.entra import publisher_tokens
from shared.wiring.process import CLOCK, new_request_id, once
from shared.wiring.settings import settings

T = TypeVar("T")

THREADS = 32  # for requests that are large, or wait for storage or keys


@once
def publish() -> Publish:
    return Publish(
        authorization=PublisherAuthorization(
            clock=CLOCK,
            tokens=publisher_tokens(),
            client_ip_header=settings().client_ip_header,
            public_url=settings().public_url,
        ),
        topics=storage.resource_cache(),
        subscriptions=storage.resource_cache(),
        commits=GroupCommit(
            Commit(payloads=storage.payloads(), sender=storage.queues()).run,
            PatientPool(MAX_UNDER_WAY, thread_name_prefix="commit"),
        ),
        clock=CLOCK,
        new_id=new_request_id,
        metrics=storage.metrics(),
        payloads_kept_for=storage.deployment_terms().payloads_kept_for,
        in_thread=_in_thread,
    )


async def _in_thread(call: Callable[[], T]) -> T:
    """
    Run *call* on a thread, in the context of its request.

    Raises:
        StorageUnavailable: no thread can be had; the publisher repeats the request.
    """
    context = contextvars.copy_context()
    try:
        running = asyncio.get_running_loop().run_in_executor(_threads(), context.run, call)
    except RuntimeError as error:
        raise StorageUnavailable from error
    return await running


@once
def _threads() -> PatientPool:
    return PatientPool(THREADS, thread_name_prefix="publish")
