"""Passes the trace of events on to their request, and names it in logs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from shared.delivery.delivery import Delivery
from shared.delivery.requests.push_batch import PushBatch
from shared.events.event_ids import MAX_IDS
from shared.events.trace_context import PARENT, STATE, TraceContext
from shared.http import OutboundRequest


def with_trace(
    request: OutboundRequest, batch: PushBatch, new_span_id: Callable[[], str]
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


def trace_id(delivery: Delivery, text: str | None) -> str | None:
    """Return the id of an event's trace, if it has one; *text* ``None``: the event is gone."""
    trace = delivery.trace(text)
    return trace.trace_id if trace else None


def distinct(ids: Iterable[str | None]) -> list[str] | None:
    """Return the different ids of the first `MAX_IDS` events; ``None`` if they have none."""
    return list(dict.fromkeys(filter(None, islice(ids, MAX_IDS)))) or None


def traces_of(batch: PushBatch) -> list[TraceContext]:
    """Return the different traces of a batch's events, in their order."""
    found = (delivery.trace(text) for delivery, text in batch)
    return list(dict.fromkeys(each for each in found if each))


def common_trace(batch: PushBatch) -> TraceContext | None:
    """Return the trace that all events of a batch are in, if there is one."""
    delivery, text = batch[0]
    trace = delivery.trace(text)
    if trace is None or any(trace_id(*each) != trace.trace_id for each in batch[1:]):
        return None
    return trace
