"""Computes storage operations, function time and a month's bill from its work."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from cli.costs.data import measured, meter_of, prices
from cli.costs.workload import Work, Workload, work_of
from shared.adapters.azure_storage.traits import AZURE_STORAGE
from shared.delivery.pace import MOST
from shared.engine.delivering.scheduler import PUSHES

HOURS = 730.0  # of a month
MONTH = HOURS * 3600  # seconds
CORES = {512: 0.25, 2048: 1.0, 4096: 2.0}  # of an instance with so many MB
REQUESTS = 16  # that an instance takes at a time (infra)
# Processor seconds of a run with one event: Azure's own host and its worker, with 16 publishers.
# What each further event takes was measured on the local host alone.
PUBLISH_CPU, DELIVER_CPU = 0.0014, 0.0010
_LEAST_SECONDS = 1.0  # that are billed when an instance wakes
_LINGERS = 300.0  # seconds that an instance goes on polling its queue; assumed
_DEAD_LETTER_RUNS = HOURS * 60  # each minute (infra)
_TIMER_RUNS = HOURS * 60 + _DEAD_LETTER_RUNS  # and each minute for long waits
_PAYLOAD_DAYS, _MONTH_DAYS = 4, 30
_RECORD_GB = 1e-6  # of a log record: about a kilobyte, assumed
_SAMPLED = 20.0  # items a second and instance that sampling lets through
_IDLE_LOG_GB = 0.2  # that timers and host write in a month; assumed
ALERTS = {"log_alert": 8, "metric_alert": 1}  # infra/modules/alerts.bicep
_MILLION = 1_000_000


class Arrivals(StrEnum):
    """How a month's work arrives: all at once, or at random times all month long."""

    BURSTS = "bursts"
    SPREAD = "spread"


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionRuns:
    """Runs of one function, on instances of its own."""

    name: str
    runs: float
    seconds: float  # of one run
    cpu: float  # of one run
    at_a_time: int
    pushes: float = 0.0  # the seconds of one run's pushes, divided by how many there may be
    queue: bool = False

    def busy(self, traffic: Arrivals, cores: float) -> float:
        """
        Return the instance-seconds that are billed.

        An instance is billed while it runs anything, however many runs at a time. In bursts it is
        full: its runs, its pushes or its processor set the limit. Spread over the month
        it wakes for one run, or for the few that coincide; at least a second is billed.
        """
        full = self.runs * max(self.seconds / self.at_a_time, self.cpu / cores, self.pushes)
        if traffic is Arrivals.BURSTS:
            return full
        alone = max(self.seconds, self.cpu / cores, _LEAST_SECONDS)
        return max(full, _covered(self.runs, alone))

    def awake(self, traffic: Arrivals, cores: float) -> float:
        """Return the seconds in which an instance is there, and polls its queue if it has one."""
        if traffic is Arrivals.BURSTS:
            return self.busy(traffic, cores)
        return max(self.busy(traffic, cores), _covered(self.runs, _LINGERS))


def _covered(runs: float, seconds: float) -> float:
    """Return how much of a month is covered by *runs* at random times that last so long."""
    return MONTH * -math.expm1(-runs * seconds / MONTH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a month's work uses, in the units of the meters, without fixed costs."""

    operations: Mapping[str, float]  # of storage, by kind
    busy: Mapping[str, float]  # instance-seconds by function
    executions: float
    payload_gb: float
    log_gb: float


def groups(work: Work) -> tuple[FunctionRuns, ...]:
    """Return publishing, delivering and retrying."""
    times, batch = measured().runs, work.workload.batch
    first, later = work.waves[0], work.waves[1:]
    again = sum(each.messages for each in later)
    parts = first.messages / work.requests
    pushes = min(PUSHES, MOST * work.workload.fanout)

    def delivering(name: str, messages: float, attempts: float) -> FunctionRuns:
        together = attempts / messages if messages else 1.0
        return FunctionRuns(
            name=name,
            runs=messages,
            seconds=times["deliver"] + times["deliver event"] * (together - 1),
            cpu=DELIVER_CPU + times["cpu event"] * (together - 1),
            at_a_time=AZURE_STORAGE.most_in_hand,
            pushes=together * times["endpoint"] / pushes,
            queue=True,
        )

    publishing = FunctionRuns(
        name="publish",
        runs=work.requests,
        seconds=times["publish"]
        + times["publish event"] * (batch - 1)
        + times["publish message"] * max(0.0, parts - 1),
        cpu=PUBLISH_CPU + times["cpu event"] * (batch - 1),
        at_a_time=REQUESTS,
    )
    return (
        publishing,
        delivering("deliver", first.messages, first.attempts),
        delivering("retry", again, sum(each.attempts for each in later)),
    )


def work_operations(work: Work, steps: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return the storage operations by kind that the work takes, however it comes."""
    retries = sum(each.messages for each in work.waves[1:])
    long = sum(each.messages for each in work.waves[1:] if each.waited_long)
    parked_messages = work.waves[0].messages + retries if work.parked else 0.0
    times = {
        "delivery message": work.waves[0].messages,
        "retry message": retries,
        "long wait": long,
        "parked request": work.commits if work.parked else 0.0,
        "parked message": parked_messages,
        "failed run": work.failed_runs,
        "dead letter message": work.dead_messages,
    }
    operations: defaultdict[str, float] = defaultdict(float)
    for step, count in times.items():
        _add(operations, steps[step], count)
    # A blob holds what a run of the timer finds for one event subscription.
    blobs = min(work.dead_messages, _DEAD_LETTER_RUNS * work.workload.fanout)
    operations["blob write deadletters"] += blobs
    return operations


def usage(work: Work, traffic: Arrivals, memory_mb: int) -> Usage:
    """Compute what a month's work uses."""
    cores, steps = CORES[memory_mb], measured().steps
    active = [group for group in groups(work) if group.runs]
    operations = work_operations(work, steps)
    for group in active:
        awake = dict(steps["second awake"])
        # A full instance always finds something: what it asks is counted with the messages.
        polls = awake.pop("queue get") if group.queue and traffic is Arrivals.SPREAD else 0.0
        awake.pop("queue get", None)
        _add(operations, awake | {f"queue get {group.name}": polls}, group.awake(traffic, cores))
    busy = {group.name: group.busy(traffic, cores) for group in active}
    executions = sum(group.runs for group in active)
    failed = work.attempts * work.workload.failure_rate
    # The host's record of a run, and ours of a request or a part; a line for each failed attempt.
    again = sum(each.messages for each in work.waves[1:])
    ours = work.requests + work.parts + again + failed
    records = min(executions + ours, _SAMPLED * sum(busy.values()) + _SAMPLED)
    parked_bytes = work.workload.events * work.workload.size if work.parked else 0
    return Usage(
        operations=operations,
        busy=busy,
        executions=executions,
        payload_gb=parked_bytes / 1e9 * _PAYLOAD_DAYS / _MONTH_DAYS,
        log_gb=records * _RECORD_GB,
    )


def idle_hour() -> dict[str, float]:
    """
    Return the storage operations of an hour in which nothing is published.

    Only the dead-letter timer polls the queues other than `waiting`, as often as it is deployed.
    """
    hour = measured().steps["idle hour"]
    runs = _DEAD_LETTER_RUNS / HOURS
    more = runs / hour.get("queue get deadletters", runs)
    is_timers = {kind: kind.startswith("queue ") and kind != "queue get waiting" for kind in hour}
    return {kind: n * more if is_timers[kind] else n for kind, n in hour.items()}


def saved_by_a_slower_schedule(memory_mb: int) -> float:
    """Return the dollars a month that writing dead letters every fifth minute saves."""
    return _timer_dollars(_DEAD_LETTER_RUNS * 4 / 5, memory_mb)


def _timer_dollars(runs: float, memory_mb: int) -> float:
    return prices()["gb_second"].of(runs * _LEAST_SECONDS * memory_mb / 1024)


def fixed_costs(memory_mb: int) -> dict[str, float]:
    """Return the fixed costs of a month in dollars, by purpose."""
    idle = {kind: n * HOURS for kind, n in idle_hour().items()}
    return {
        "timers": _timer_dollars(_TIMER_RUNS, memory_mb),
        "executions": prices()["execution"].of(_TIMER_RUNS),
        "storage operations": sum(storage_dollars(idle).values()),
        "alerts": sum(prices()[name].of(count) for name, count in ALERTS.items()),
        "logs": prices()["log_gb"].of(_IDLE_LOG_GB),
    }


def dollars(used: Usage, memory_mb: int) -> dict[str, float]:
    """Price a month's use in dollars, by purpose, before free grants."""
    by_service = storage_dollars(used.operations)
    by_service["blobs"] += prices()["blob_gb"].of(used.payload_gb)
    time = {
        f"{name}: function time": prices()["gb_second"].of(seconds * memory_mb / 1024)
        for name, seconds in used.busy.items()
    }
    executions = {"executions": prices()["execution"].of(used.executions)}
    return time | executions | by_service | {"logs": prices()["log_gb"].of(used.log_gb)}


def storage_dollars(operations: Mapping[str, float]) -> dict[str, float]:
    """Price storage operations, by service."""
    names = {"queue": "queues", "table": "tables", "blob": "blobs"}
    sums = dict.fromkeys(names.values(), 0.0)
    for kind, count in operations.items():
        sums[names[kind.split(" ", 1)[0]]] += prices()[meter_of(kind)].of(count)
    return sums


def _add(operations: dict[str, float], step: Mapping[str, float], times: float) -> None:
    for kind, count in step.items():
        operations[kind] = operations.get(kind, 0.0) + count * times


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
    stored_byte = measured().runs["stored byte"]
    work = work_of(workload, stored_byte)
    together = work_of(workload, stored_byte, at_a_time=REQUESTS)
    meter = prices()["event_grid"]
    return Comparison(
        work=work,
        memory_mb=memory_mb,
        bills={
            Arrivals.BURSTS: _bill(together, Arrivals.BURSTS, memory_mb),
            Arrivals.SPREAD: _bill(work, Arrivals.SPREAD, memory_mb),
        },
        run_seconds={each.name: each.seconds for each in groups(work) if each.runs},
        event_grid=meter.of(work.event_grid_operations),
        event_grid_total=meter.of(max(0.0, work.event_grid_operations - meter.free)),
    )


def _bill(work: Work, traffic: Arrivals, memory_mb: int) -> Bill:
    used, fixed = usage(work, traffic, memory_mb), fixed_costs(memory_mb)
    time, executions = prices()["gb_second"], prices()["execution"]
    gb_seconds = sum(used.busy.values()) * memory_mb / 1024 + fixed["timers"] / time.of(1)
    runs = used.executions + fixed["executions"] / executions.of(1)
    return Bill(
        used=used,
        lines=dollars(used, memory_mb),
        fixed=fixed,
        granted=time.of(min(gb_seconds, time.free)) + executions.of(min(runs, executions.free)),
        deliveries=work.deliveries,
    )
