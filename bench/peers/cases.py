"""Lists what is measured: the cases, and the figures that each of them gives."""

from __future__ import annotations

from dataclasses import dataclass

from bench.load import Case

FIGURES = {
    "delivered": "delivered/s",
    "p50": "p50 ms",
    "p99": "p99 ms",
    "ack": "p50 of the answer, ms",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCase:
    """A case and the figures that the table shows of it."""

    case: Case
    figures: tuple[str, ...] = ("delivered",)
    standard: str = ""  # the case with which BullMQ's rate is compared
    is_ours: bool = False  # no job queue has the like


# As many events are published as a system delivers in some seconds.
_SINGLE = Case("single events, 1 subscription", 0, 1, 16, 1)
_SINGLE_TO_TEN = Case("single events, 10 subscriptions", 0, 1, 16, 10)
_HUNDREDS = Case("100 a request, 1 subscription", 0, 100, 16, 1)
_HUNDREDS_TO_TEN = Case("100 a request, 10 subscriptions", 0, 100, 16, 10)
_BATCHED = Case("output batches of 100, single events", 0, 1, 16, 1, batching=100)
_PACED = Case("paced at 30/s", 0, 1, 4, 1, 30)
_LONE = Case("lone publisher", 0, 1, 1, 1, 5)

CASES = (
    *(
        MeasuredCase(case=case, standard=case.name)
        for case in (_SINGLE, _SINGLE_TO_TEN, _HUNDREDS, _HUNDREDS_TO_TEN)
    ),
    MeasuredCase(case=_BATCHED, standard=_SINGLE.name, is_ours=True),
    MeasuredCase(case=_PACED, figures=("p50", "p99")),
    MeasuredCase(case=_LONE, figures=("ack",)),
)
