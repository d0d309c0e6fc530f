"""Lists what is measured: the cases, and the figures that each of them gives."""

from __future__ import annotations

from dataclasses import dataclass

from bench.load import Case

FIGURES = {
    "delivered": "delivered/s",
    "p50": "p50 ms",
    "p99": "p99 ms",
    "ack": "p50 of the answer, ms",
    "cpu": "processor ms a delivery, all servers",
    "memory": "memory, MB",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCase:
    """A case and the figures that the table shows of it."""

    name: str
    case: Case
    figures: tuple[str, ...] = ("delivered", "cpu", "memory")
    standard: str = ""  # the case with which BullMQ's rate is compared
    is_ours: bool = False  # no job queue has the like


# As many events are published as a system delivers in some seconds.
_COMPARED = {
    "single events, 1 subscription": Case(0, 1, 16, 1),
    "single events, 10 subscriptions": Case(0, 1, 16, 10),
    "100 a request, 1 subscription": Case(0, 100, 16, 1),
    "100 a request, 10 subscriptions": Case(0, 100, 16, 10),
}
SINGLE = _COMPARED["single events, 1 subscription"]
CASES = (
    *(MeasuredCase(name=name, case=case, standard=name) for name, case in _COMPARED.items()),
    MeasuredCase(
        name="output batches of 100, single events",
        case=Case(0, 1, 16, 1, batching=100),
        standard="single events, 1 subscription",
        is_ours=True,
    ),
    MeasuredCase(name="paced at 30/s", case=Case(0, 1, 4, 1, 30), figures=("p50", "p99", "cpu")),
    MeasuredCase(name="lone publisher", case=Case(0, 1, 1, 1, 5), figures=("ack",)),
)
