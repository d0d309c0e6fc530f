"""
Writes the tables of docs/cost.md: ``python -m cli.costs.page``.

Each table is between ``<!-- name -->`` and ``<!-- end -->``; the rest of the page does not change.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cli.costs.data import measured, prices, scenarios
from cli.costs.model import (
    DELIVER_CPU,
    MONTH,
    PUBLISH_CPU,
    Arrivals,
    Comparison,
    compare,
    fixed_costs,
    saved_by_a_slower_schedule,
)
from cli.costs.report import money
from cli.costs.workload import Workload

PAGE = Path(__file__).parents[2] / "docs/cost.md"
_HOST = PAGE.parents[1] / "host.json"
_INTERVALS = (0.1, 0.2, 0.5, 1.0, 2.0)  # seconds
_LATENCY = {0.1: 42, 0.5: 279}  # ms, of lone events on Azure's own host
_TABLE = re.compile(r"(<!-- (?P<name>[a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_SMALL, _LARGE = 512, 2048  # MB
_MILLION = 1_000_000
_LOADS = (  # events, fanout, batch, size, failure rate, MB
    (100_000, 1, 1, 1024, 0.0, _LARGE),
    (_MILLION, 1, 1, 1024, 0.0, _LARGE),
    (_MILLION, 1, 1, 1024, 0.0, _SMALL),
    (_MILLION, 1, 1, 1024, 0.05, _LARGE),
    (_MILLION, 5, 1, 1024, 0.0, _LARGE),
    (_MILLION, 1, 1, 65_536, 0.0, _LARGE),
    (_MILLION, 1, 100, 1024, 0.0, _LARGE),
    (100 * _MILLION, 1, 1, 1024, 0.0, _LARGE),
    (100 * _MILLION, 1, 100, 1024, 0.0, _LARGE),
    (100 * _MILLION, 5, 100, 1024, 0.01, _LARGE),
    (1000 * _MILLION, 1, 100, 1024, 0.0, _LARGE),
)


def rendered(page: str) -> str:
    """Return *page* with its tables rendered anew."""
    return _TABLE.sub(lambda found: f"{found[1]}{_TABLES[found['name']]()}\n{found[3]}", page)


def _loads() -> str:
    head = ("events a month", "subscriptions", "in a request", "bytes", "failing", "MB")
    rows = [
        (
            *(f"{each:,}" for each in load[:4]),
            f"{load[4]:.0%}",
            f"{load[5]:,}",
            *_totals(_compared(*load)),
        )
        for load in _LOADS
    ]
    return _table((*head, "in bursts", "spread out", "Event Grid"), rows)


def _idle() -> str:
    sides = [fixed_costs(memory) for memory in (_LARGE, _SMALL)]
    rows = [(name, *(money(side[name]) for side in sides)) for name in sides[0]]
    rows.append(("**total**", *(f"**{money(sum(side.values()))}**" for side in sides)))
    return _table(("a month, nothing published", "2,048 MB", "512 MB"), rows)


def _beside() -> str:
    ready = (
        prices()["always_ready_gb_second"].of(MONTH * memory / 1024) for memory in (_LARGE, _SMALL)
    )
    polls, endpoints = prices()["queue"].of(MONTH), prices()["private_endpoint"].of(4)
    rows = [
        ("one always-ready instance, without its executions", *map(money, ready)),
        ("a private network: four endpoints, without their traffic", *[money(endpoints)] * 2),
        (
            "saved by writing dead letters every fifth minute, function time",
            *(money(saved_by_a_slower_schedule(memory)) for memory in (_LARGE, _SMALL)),
        ),
        ("the scale controller, if it polled both queues every second", *[money(2 * polls)] * 2),
    ]
    return _table(("not included", "2,048 MB", "512 MB"), rows)


def _polling() -> str:
    queues = json.loads(_HOST.read_text())["extensions"]["queues"]
    hours, minutes, seconds = map(float, queues["maxPollingInterval"].split(":"))
    default = hours * 3600 + minutes * 60 + seconds
    rows = [
        (
            f"{interval:g} s" + (", the default" if interval == default else ""),
            f"{_LATENCY[interval]} ms" if interval in _LATENCY else "",
            f"{MONTH / interval:,.0f}",
            money(prices()["queue"].of(MONTH / interval)),
        )
        for interval in sorted({*_INTERVALS, default})
    ]
    head = ("`maxPollingInterval`", "publish to webhook, p50", "operations a month", "dollars")
    return _table(head, rows)


def _runs() -> str:
    times = measured().runs
    rows = []
    for name, cpu in (("publish", PUBLISH_CPU), ("deliver", DELIVER_CPU)):
        rows += [
            (f"{name} invocation", _ms(times[name]), _ms(times[f"{name} event"])),
            ("its processor time", _ms(cpu), _ms(times["cpu event"])),
        ]
    return _table(("", "with one event", "for each further event"), rows)


def _scenarios() -> str:
    found = measured()
    versions = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    published = sum(each.get("events", 0) for each in scenarios())
    return (
        f"Measured on {found.measured}: {len(scenarios())} scenarios, {published:,} events"
        f" ({versions})."
    )


_TABLES: Mapping[str, Callable[[], str]] = {
    "loads": _loads,
    "idle": _idle,
    "beside": _beside,
    "polling": _polling,
    "runs": _runs,
    "scenarios": _scenarios,
}


def _compared(
    events: int, fanout: int, batch: int, size: int, failure_rate: float, memory_mb: int
) -> Comparison:
    load = Workload(events=events, fanout=fanout, batch=batch, size=size, failure_rate=failure_rate)
    return compare(load, memory_mb)


def _totals(comparison: Comparison) -> tuple[str, ...]:
    ours = (comparison.bills[traffic].total for traffic in Arrivals)
    return tuple(map(money, (*ours, comparison.event_grid_total)))


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |".replace("|  |", "| |") for line in lines)


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text()))
    sys.exit(0)
