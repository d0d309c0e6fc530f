"""
Adds headers to a push request.

These are trace and replay, as the deployment chooses, and the subscription's signature.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import islice

from shared.delivery.delivery import Batch
from shared.events.event import MAX_IDS
from shared.events.trace_context import PARENT, STATE, TraceContext
from shared.http import OutboundRequest
from shared.subscriptions.signing import sign
from shared.subscriptions.subscription import EventSubscription, SubscriptionKey

REPLAY_HEADER = "aeg-replay-of"  # not Event Grid's
_REPLAY_PREFIX = "replay-"
_BATCHES = uuid.UUID("0d3c3f0b-4b1e-4f0e-9c39-7d6a1c2f5e88")


def with_trace(
    request: OutboundRequest, batch: Batch, new_span_id: Callable[[], str]
) -> OutboundRequest:
    """
    Return *request* as a new span of the trace of its events; unchanged if they have none.

    A request is in one trace only: events of several traces have none in common. Custom headers of
    the same names are kept.
    """
    trace = common_trace(batch)
    if trace is None or not {PARENT, STATE}.isdisjoint(map(str.lower, request.headers)):
        return request
    return request._replace(headers={**request.headers, **trace.headers(new_span_id())})


def distinct(ids: Iterable[str | None]) -> list[str] | None:
    """Return the different ids of the first `MAX_IDS` events; ``None`` if they have none."""
    return list(dict.fromkeys(filter(None, islice(ids, MAX_IDS)))) or None


def traces_of(batch: Batch) -> list[TraceContext]:
    """Return the different traces of a batch's events, in their order."""
    return list(dict.fromkeys(filter(None, (each.trace for each in batch))))


def common_trace(batch: Batch) -> TraceContext | None:
    """Return the trace that all events of a batch are in, if there is one."""
    trace = batch[0].trace
    if trace is None or any(each.trace_id != trace.trace_id for each in batch[1:]):
        return None
    return trace


def replay_publish_id(job: str, batch: int) -> str:
    """Return the publish id of what a batch of the replay *job* puts."""
    return f"{_REPLAY_PREFIX}{job}-{batch}"


def with_replay(request: OutboundRequest, batch: Batch) -> OutboundRequest:
    """Return *request* with the job that its events were put by, if all were put by one."""
    jobs = {replay_job(each.origin.publish_id) for each in batch}
    job = jobs.pop()
    if jobs or job is None:
        return request
    return request._replace(headers={**request.headers, REPLAY_HEADER: job})


def replay_job(publish_id: str) -> str | None:
    """Return the replay job that has put what was published under this id, if one has."""
    if not publish_id.startswith(_REPLAY_PREFIX):
        return None
    return publish_id.removeprefix(_REPLAY_PREFIX).rpartition("-")[0]


def with_signature(
    request: OutboundRequest, subscription: EventSubscription, batch: Batch, at: datetime
) -> OutboundRequest:
    """Return *request* signed as of its attempt *at*; unchanged without secrets."""
    if not subscription.signing:
        return request
    return sign(request, subscription.signing, _message_id(batch, subscription.key), at)


def _message_id(batch: Batch, key: SubscriptionKey) -> str:
    """Return an id that is equal at every attempt: the event's, or one of exactly these events."""
    ids = sorted(each.system_id(key) for each in batch)
    return ids[0] if len(ids) == 1 else str(uuid.uuid5(_BATCHES, "/".join(ids)))
