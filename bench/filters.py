"""Measures the processor time that matching one event against many subscriptions takes."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any

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


def measure(subscriptions: int, rounds: int = 50) -> dict[str, float]:
    """Return the processor time for one event in ms: median and maximum of *rounds*."""
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
    for _ in range(rounds):
        began = time.process_time_ns()
        values = EventValues(event)
        found = sum(each.matches(values) for each in filters)
        times.append((time.process_time_ns() - began) / 1e6)
        if found != subscriptions:
            raise RuntimeError("a filter of the benchmark does not match")
    return {
        "subscriptions": subscriptions,
        "filters": len(_FILTERS),
        "median_ms": round(statistics.median(times), 3),
        "worst_ms": round(max(times), 3),
    }


def main(parser: argparse.ArgumentParser, arguments: list[str]) -> int:
    """Print the table."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    rows = [measure(count) for count in (1, 50, 500)]
    if options.json:
        print(json.dumps(rows))
        return 0
    print(f"{'subscriptions':>13} {'filters':>8} {'median ms':>10} {'worst ms':>9}")
    for row in rows:
        print(
            f"{row['subscriptions']:>13} {row['filters']:>8} "
            f"{row['median_ms']:>10} {row['worst_ms']:>9}"
        )
    return 0
