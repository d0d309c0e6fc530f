"""Computes a month's bill: Pushgrid's for both kinds of traffic, and Event Grid's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cli.costs.data import measured, prices
from cli.costs.model import REQUESTS, Arrivals, Usage, dollars, fixed_costs, grants, groups, usage
from cli.costs.workload import Work, Workload, work_of

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """Dollars of a month."""

    used: Usage
    lines: Mapping[str, float]  # by meter, for the work
    fixed: Mapping[str, float]  # what no work changes
    granted: float
    deliveries: int

    @property
    def work(self) -> float:
        return sum(self.lines.values())

    @property
    def total(self) -> float:
        """Return what is paid in all, after free grants."""
        return self.work + sum(self.fixed.values()) - self.granted

    @property
    def per_million(self) -> float:
        """Return what a million deliveries add to the bill, before free grants."""
        return self.work / self.deliveries * _MILLION


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Both sides."""

    work: Work
    memory_mb: int
    bills: Mapping[Arrivals, Bill]
    run_seconds: Mapping[str, float]  # how long a run of each function takes
    event_grid: float
    event_grid_total: float

    @property
    def event_grid_per_million(self) -> float:
        """Return what Event Grid charges for a million deliveries, before its free operations."""
        return self.event_grid / self.work.deliveries * _MILLION


def compare(workload: Workload, memory_mb: int = 2048) -> Comparison:
    """Compute both bills, Pushgrid's on instances of *memory_mb*."""
    found, list_prices = measured(), prices()
    stored_byte = found.runs["stored byte"]
    work = work_of(workload, stored_byte)
    works = {
        Arrivals.SPREAD: work,
        Arrivals.BURSTS: work_of(workload, stored_byte, at_a_time=REQUESTS),
    }
    counted = work.event_grid_operations
    meter = list_prices["event_grid"]
    return Comparison(
        work=work,
        memory_mb=memory_mb,
        bills={traffic: _bill(works[traffic], traffic, memory_mb) for traffic in Arrivals},
        run_seconds={each.name: each.seconds for each in groups(work, found) if each.runs},
        event_grid=meter.of(counted),
        event_grid_total=meter.of(max(0.0, counted - meter.free)),
    )


def _bill(work: Work, traffic: Arrivals, memory_mb: int) -> Bill:
    found, list_prices = measured(), prices()
    used = usage(work, found, traffic, memory_mb)
    fixed = fixed_costs(found, memory_mb, list_prices)
    fixed_seconds = fixed["timers"] / list_prices["gb_second"].of(1)  # GB-s
    gb_seconds = sum(used.busy.values()) * memory_mb / 1024 + fixed_seconds
    executions = used.executions + fixed["executions"] / list_prices["execution"].of(1)
    return Bill(
        used=used,
        lines=dollars(used, memory_mb, list_prices),
        fixed=fixed,
        granted=grants(gb_seconds, executions, list_prices),
        deliveries=work.deliveries,
    )
