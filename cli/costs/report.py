"""A comparison as a table for people, and as a document for programs."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from cli.costs.bill import Bill, Comparison
from cli.costs.data import measured, prices
from cli.costs.model import Traffic

_MANY = 100  # dollars from which cents tell nothing
_LITTLE = 0.005  # dollars that are shown as nothing
_PLURALS = {"delivery": "deliveries"}


def document(told: Comparison) -> dict[str, Any]:
    """Return everything, in dollars, seconds and numbers of a month."""
    work, load = told.work, told.work.workload
    return {
        "workload": {
            "events": load.events,
            "fanout": load.fanout,
            "batch": load.batch,
            "size": load.size,
            "failure_rate": load.failure_rate,
            "memory_mb": told.memory_mb,
        },
        "work": {
            "requests": work.requests,
            "deliveries": work.deliveries,
            "attempts": work.attempts,
            "messages": sum(each.messages for each in work.rounds),
            "dead_letters": work.dead_letters,
            "payload_blobs": work.requests if work.parked else 0,
            "run_seconds": dict(told.run_seconds),
        },
        "pushgrid": {traffic.value: _bill(told.bills[traffic]) for traffic in Traffic},
        "event_grid": {
            "operations": work.event_grid_operations,
            "dollars": told.event_grid,
            "total": told.event_grid_total,
            "per_million_deliveries": told.event_grid_per_million,
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
        "standing": dict(bill.standing),
        "granted": bill.granted,
        "total": bill.total,
        "per_million_deliveries": bill.per_million,
    }


def _by_operation(bill: Bill) -> dict[str, float]:
    """Sum over queues, tables and containers."""
    sums: defaultdict[str, float] = defaultdict(float)
    for kind, count in bill.used.operations.items():
        sums[" ".join(kind.split(" ")[:2])] += count
    return sums


def text(told: Comparison) -> str:
    """Write it for people."""
    burst, spread = (told.bills[each] for each in Traffic)
    names = {line: _words(line) for line in burst.lines}
    lines = [_about(told), "", f"{'dollars a month':<44}{'in bursts':>12}{'spread out':>12}"]
    lines += [_row(names[line], burst.lines[line], spread.lines[line]) for line in names]
    lines += [
        _row("always there: timers, alerts, their logs", *_standing(burst, spread)),
        _row("free grants", -burst.granted, -spread.granted),
        _row("together", burst.total, spread.total),
        _row("Event Grid, after its free operations", told.event_grid_total, told.event_grid_total),
        "",
        f"{'dollars a million deliveries':<44}{'in bursts':>12}{'spread out':>12}",
        _row("Pushgrid, without what is always there", burst.per_million, spread.per_million),
        _row("Event Grid", told.event_grid_per_million, told.event_grid_per_million),
        "",
        f"{'storage operations a delivery':<44}{_operations(burst):>12}{_operations(spread):>12}",
        f"{'instance-seconds a million deliveries':<44}{_busy(burst):>12}{_busy(spread):>12}",
        "",
        _verdict(told),
        "",
        _notes(told),
    ]
    return "\n".join(lines)


def _about(told: Comparison) -> str:
    work, load = told.work, told.work.workload
    blobs = ", and a payload blob a request" if work.parked else ""
    attempts, dead_letters = round(work.attempts), round(work.dead_letters)
    rate = load.failure_rate
    failing = f"{rate * 100:.4g}% of all attempts fail." if rate else "no attempt fails."
    return (
        f"{_many(load.events, 'event')} a month of {_many(load.size, 'byte')}, published"
        f" {load.batch:,} at a time, each to {_many(load.fanout, 'event subscription')};\n"
        f"{failing} Instances of {told.memory_mb:,} MB.\n"
        f"That is {_many(work.requests, 'request')}, {_many(work.deliveries, 'delivery')},"
        f" {_many(attempts, 'attempt')}, {_many(dead_letters, 'dead letter')}{blobs}."
    )


def _many(count: int, what: str) -> str:
    return f"{count:,} {what if count == 1 else _PLURALS.get(what, f'{what}s')}"


def _row(name: str, burst: float, spread: float) -> str:
    return f"{name:<44}{money(burst):>12}{money(spread):>12}"


def money(dollars: float) -> str:
    """Write dollars: cents where they tell something."""
    if abs(dollars) < _LITTLE:
        return "0.00"
    return f"{dollars:,.0f}" if abs(dollars) >= _MANY else f"{dollars:,.2f}"


def _words(line: str) -> str:
    return {
        "queues": "queue operations",
        "tables": "table operations",
        "blobs": "blob operations and capacity",
        "logs": "logs, sampled",
    }.get(line, line)


def _standing(*bills: Bill) -> tuple[float, ...]:
    return tuple(sum(each.standing.values()) for each in bills)


def _operations(bill: Bill) -> str:
    return f"{sum(bill.used.operations.values()) / bill.deliveries:.3f}"


def _busy(bill: Bill) -> str:
    return f"{sum(bill.used.busy.values()) / bill.deliveries * 1e6:,.0f}"


def _verdict(told: Comparison) -> str:
    burst, spread = (told.bills[each].total for each in Traffic)
    theirs = told.event_grid_total
    if theirs < min(burst, spread):
        by = _between(burst - theirs, spread - theirs)
        return f"Pushgrid is dearer than Event Grid here: by {by} dollars a month."
    if theirs > max(burst, spread):
        by = _between(theirs - burst, theirs - spread)
        return f"Pushgrid is cheaper than Event Grid here: by {by} dollars a month."
    return "Pushgrid is dearer than Event Grid if the work is spread out, and cheaper in bursts."


def _between(*differences: float) -> str:
    least, most = map(money, sorted(differences))
    return least if least == most else f"{least} to {most}"


def _notes(told: Comparison) -> str:
    dates = sorted({each.date for each in prices().values()})
    found, attempts = measured(), len(told.work.rounds)
    return (
        "In bursts: instances are full while they run. Spread out: events come at random times\n"
        "all month long, so an instance wakes for few of them, for a second at least. Yours lies\n"
        f"between. List prices of {dates[0]} to {dates[-1]}; measured {found.measured},\n"
        f"with endpoints that answer in {found.runs['endpoint']:g} s. Failures fall by chance and\n"
        f"are retried on the schedule of profile latest, up to {attempts} attempts. Left out:\n"
        "network traffic, private endpoints, instances always ready. docs/cost.md has the rest."
    )
