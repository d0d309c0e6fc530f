"""Which conformance cases can be played on a running system, and when things are due there."""

from __future__ import annotations

from itertools import pairwise

from tests.conformance.editions import CASES, Case

SCALE = 3.3  # the shortest wait of a schedule, 10 s, takes 3 s
SHORTEST, LONGEST = 3.0, 120.0  # seconds of a wait, and of a whole case
ROOM = 8.0  # seconds that the last attempt may be late and still be within the time to live


def moments(case: Case) -> list[float]:
    """Return when each attempt begins here: waits are scaled, timeouts take their real time."""
    return [moment(case, at, made) for made, at in enumerate(case.attempts)]


def ends_at(case: Case) -> float:
    """Return when nothing more is to come, the blob included."""
    made = len(case.attempts)
    ends = moment(case, case.end.at, made)
    blob = moment(case, case.end.blob_at, made - 1) if case.end.blob_at is not None else 0.0
    return max(ends, blob)


def is_played(case: Case) -> bool:
    """Select what can be played truly: no wait or room too short, no case too long."""
    waits = [later - earlier for earlier, later in pairwise(moments(case))]
    return (
        not {"dns", "tls"} & set(case.answers)
        and min(waits, default=SHORTEST) >= SHORTEST
        and ends_at(case) <= LONGEST
        and _has_room(case)
    )


def _has_room(case: Case) -> bool:
    minutes = case.policy.get("eventTimeToLiveInMinutes")
    return minutes is None or minutes * 60 / SCALE - moments(case)[-1] >= ROOM


def moment(case: Case, at: float, made: int) -> float:
    """Return when the documented time *at* is here, after so many attempts were *made*."""
    waited = case.timeout * sum(case.answer(each + 1) == "timeout" for each in range(made))
    return waited + (at - waited) / SCALE


PLAYED = [case for case in CASES if is_played(case)]
