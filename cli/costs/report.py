"""Formats a comparison as a table for people and as JSON for programs."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import Any

from cli.costs.data import measured, prices
from cli.costs.model import Arrivals, Bill, Comparison
from cli.terminal import counted

_WITHOUT_CENTS = 100  # dollars from which cents are not shown
_ROUNDS_TO_ZERO = 0.005  # dollars
_many = partial(counted, form=",")
_WORDS = {
    "queues": "queue operations",
    "tables": "table operations",
    "blobs": "blob operations and capacity",
    "logs": "logs, sampled",
}


def document(comparison: Comparison) -> dict[str, Any]:
    """Return the whole comparison as JSON members: dollars, seconds and counts of a month."""
    work, load = comparison.work, comparison.work.workload
    return {
        "workload": {
            "events": load.events,
            "fanout": load.fanout,
            "batch": load.batch,
            "size": load.size,
            "failure_rate": load.failure_rate,
            "memory_mb": comparison.memory_mb,
        },
        "work": {
            "requests": work.requests,
            "deliveries": work.deliveries,
            "attempts": work.attempts,
            "messages": sum(each.messages for each in work.waves),
            "dead_letters": work.dead_letters,
            "payload_blobs": work.requests if work.parked else 0,
            "run_seconds": dict(comparison.run_seconds),
        },
        "pushgrid": {traffic.value: _bill(comparison.bills[traffic]) for traffic in Arrivals},
        "event_grid": {
            "operations": work.event_grid_operations,
            "dollars": comparison.event_grid,
            "total": comparison.event_grid_total,
            "per_million_deliveries": comparison.event_grid_per_million,
        },
        "measured": measured().measured,
        "prices": {
            name: {"dollars": each.price, "per": each.per, "unit": each.unit, "as_of": each.date}
            for name, each in prices().items()
        },
    }


def _bill(bill: Bill) -> dict[str, Any]:
    return {
        "storage_operations": dict(sorted(_by_operation(bill).items())),
        "instance_seconds": dict(bill.used.busy),
        "executions": bill.used.executions,
        "log_gb": bill.used.log_gb,
        "dollars": dict(bill.lines),
        "standing": dict(bill.fixed),
        "granted": bill.granted,
        "total": bill.total,
        "per_million_deliveries": bill.per_million,
    }


def _by_operation(bill: Bill) -> dict[str, float]:
    """Sum the operations over queues, tables and containers."""
    sums: defaultdict[str, float] = defaultdict(float)
    for kind, count in bill.used.operations.items():
        sums[" ".join(kind.split(" ")[:2])] += count
    return sums


def text(comparison: Comparison) -> str:
    """Return the comparison as text of at most 100 columns."""
    burst, spread = bills = [comparison.bills[each] for each in Arrivals]
    total, per_million = comparison.event_grid_total, comparison.event_grid_per_million
    fixed = [sum(each.fixed.values()) for each in bills]
    operations = [sum(each.used.operations.values()) / each.deliveries for each in bills]
    busy = [sum(each.used.busy.values()) / each.deliveries * 1e6 for each in bills]
    lines = [
        _about(comparison),
        "",
        _row("dollars a month", "in bursts", "spread out"),
        *(
            _dollars(_WORDS.get(line, line), burst.lines[line], spread.lines[line])
            for line in burst.lines
        ),
        _dollars("fixed: timers, alerts, their logs", *fixed),
        _dollars("free grants", -burst.granted, -spread.granted),
        _dollars("total", burst.total, spread.total),
        _dollars("Event Grid, after its free operations", total, total),
        "",
        _row("dollars a million deliveries", "in bursts", "spread out"),
        _dollars("Pushgrid, without fixed costs", burst.per_million, spread.per_million),
        _dollars("Event Grid", per_million, per_million),
        "",
        _row("storage operations a delivery", *(f"{each:.3f}" for each in operations)),
        _row("instance-seconds a million deliveries", *(f"{each:,.0f}" for each in busy)),
        "",
        _verdict(comparison),
        "",
        _notes(comparison),
    ]
    return "\n".join(lines)


def _about(comparison: Comparison) -> str:
    work, load = comparison.work, comparison.work.workload
    blobs = ", and a payload blob a request" if work.parked else ""
    attempts, dead_letters = round(work.attempts), round(work.dead_letters)
    rate = load.failure_rate
    failing = f"{rate * 100:.4g}% of all attempts fail." if rate else "no attempt fails."
    return (
        f"{_many(load.events, 'event')} a month of {_many(load.size, 'byte')}, published"
        f" {load.batch:,} at a time, each to {_many(load.fanout, 'event subscription')};\n"
        f"{failing} Instances of {comparison.memory_mb:,} MB.\n"
        f"That is {_many(work.requests, 'request')}, {_many(work.deliveries, 'delivery')},"
        f" {_many(attempts, 'attempt')}, {_many(dead_letters, 'dead letter')}{blobs}."
    )


def _row(name: str, burst: str, spread: str) -> str:
    return f"{name:<44}{burst:>12}{spread:>12}"


def _dollars(name: str, burst: float, spread: float) -> str:
    return _row(name, money(burst), money(spread))


def money(dollars: float) -> str:
    """Format dollars, with cents below a hundred."""
    if abs(dollars) < _ROUNDS_TO_ZERO:
        return "0.00"
    return f"{dollars:,.0f}" if abs(dollars) >= _WITHOUT_CENTS else f"{dollars:,.2f}"


def _verdict(comparison: Comparison) -> str:
    totals = [comparison.bills[each].total for each in Arrivals]
    theirs = comparison.event_grid_total
    by = _between(*(abs(each - theirs) for each in totals))
    if theirs < min(totals):
        return f"Pushgrid costs more than Event Grid here: {by} dollars a month."
    if theirs > max(totals):
        return f"Pushgrid costs less than Event Grid here: {by} dollars a month."
    return "Pushgrid costs more than Event Grid if the work is spread out, and less in bursts."


def _between(*differences: float) -> str:
    least, most = map(money, sorted(differences))
    return least if least == most else f"{least} to {most}"


def _notes(comparison: Comparison) -> str:
    dates = sorted({each.date for each in prices().values()})
    found, attempts = measured(), len(comparison.work.waves)
    return (
        "In bursts: instances are full while they run. Spread out: events come at random times\n"
        "all month long, so an instance wakes for few of them, for a second at least. Real\n"
        f"traffic lies between. List prices of {dates[0]} to {dates[-1]}; measured on\n"
        f"{found.measured} with endpoints that answer in {found.runs['endpoint']:g} s. Failures\n"
        f"are random and retried on the schedule of profile latest, up to {attempts} attempts.\n"
        "Not included: network traffic, private endpoints, always-ready instances. See\n"
        "docs/cost.md."
    )
