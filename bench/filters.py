"""Measures the processor time that matching one event against many subscriptions takes."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from bench.report import Measure, PhaseResult, run
from shared.arm.filter_codec import to_filter
from shared.events.event import Event
from shared.events.topic import InputSchema
from shared.subscriptions.event_values import EventValues

_MEMBERS = {
    "id": "e-0",
    "topic": "/subscriptions/s/resourceGroups/rg/providers/Microsoft.EventGrid/topics/orders",
    "subject": "/orders/17",
    "eventType": "Shop.OrderPlaced",
    "eventTime": "2026-02-09T12:00:00Z",
    "data": {"total": 12.5, "region": "EU-West", "is": {"paid": True}, "tags": ["new", "gift"]},
    "dataVersion": "1.0",
    "metadataVersion": "1",
}
# All match, so that every one is evaluated: the worst case.
_FILTERS = (
    {"operatorType": "NumberGreaterThan", "key": "data.total", "value": 1.0},
    {"operatorType": "StringIn", "key": "data.region", "values": ["eu-west", "eu-north"]},
    {"operatorType": "BoolEquals", "key": "data.is.paid", "value": True},
    {"operatorType": "StringNotContains", "key": "subject", "values": ["invoice", "draft"]},
    {"operatorType": "StringContains", "key": "data.tags", "values": ["gift"]},
)


def match(subscriptions: int, *, is_quick: bool) -> Iterator[PhaseResult]:
    """Measure the processor time for one event."""
    stored: dict[str, Any] = {
        "subjectBeginsWith": "/orders/",
        "subjectEndsWith": "",
        "includedEventTypes": ["Shop.OrderPlaced"],
        "enableAdvancedFilteringOnArrays": True,
        "advancedFilters": list(_FILTERS),
    }
    filters = [to_filter(stored) for _ in range(subscriptions)]
    event = Event(schema=InputSchema.EVENT_GRID, members=_MEMBERS, text="")
    times = []
    for _ in range(5 if is_quick else 50):
        began = time.process_time_ns()
        values = EventValues(event)
        found = sum(each.matches(values) for each in filters)
        times.append((time.process_time_ns() - began) / 1e6)
        if found != subscriptions:
            raise RuntimeError("a filter of the benchmark does not match")
    figures = {"median ms": statistics.median(times), "slowest ms": max(times)}
    yield PhaseResult(figures={"filters": len(_FILTERS)} | figures)


CASES: dict[str, Measure] = {
    f"{count} subscriptions": partial(match, count) for count in (1, 50, 500)
}


def main(parser: argparse.ArgumentParser, arguments: list[str]) -> int:
    """Print the table; returns 2 if no case matches."""
    return run(parser, arguments, CASES)
