"""What becomes of an endpoint's line: push, wait or not now, case by case."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pushgrid.testing.memory import START
from shared.delivery.gate import (
    NO_SHARE_AGAIN_IN,
    EndpointState,
    Held,
    NeedsProbe,
    NotNow,
    Open,
    PushNow,
    Until,
    Wait,
    gate,
)
from shared.delivery.pace import Pacing

LATER = START + timedelta(minutes=2)
HELD = Held(LATER, "503 Busy")
PAUSED = Held(LATER, "paused", is_pause=True)
NEEDS_PROBE = NeedsProbe("503 Busy")
STOPS = NotNow(START, "the host stops")
NO_SHARE = NotNow(START + NO_SHARE_AGAIN_IN, "other processes use the whole limit")
SHARED_LIMIT = Pacing(at_once=2)
AT_LIMIT: dict[str, Any] = {"under_way": 16}
PROBING: dict[str, Any] = {"is_probing": True}
STOPPING: dict[str, Any] = {"is_stopping": True}

CASES: list[tuple[str, dict[str, Any], object]] = [
    ("nothing keeps it", {}, PushNow()),
    ("with others under way", {"under_way": 15}, PushNow()),
    ("the limit is used", AT_LIMIT, Wait(Until.PUSH_ENDS)),
    ("a probe is under way", PROBING, Wait(Until.PROBE_ENDS)),
    ("the host stops", STOPPING, STOPS),
    ("the share is not read", {"pacing": None}, Wait(Until.SHARE_IS_READ)),
    ("others have the whole limit", {"pacing": Pacing(at_once=0)}, NO_SHARE),
    ("others have all of a second", {"pacing": Pacing(a_second=0)}, NO_SHARE),
    ("too early in this second", {"pacing": Pacing(next_at=8.0)}, Wait(Until.TIME, 8.0)),
    ("a timer that came a little early", {"pacing": Pacing(next_at=7.0005)}, PushNow()),
    ("the share is used", {"pacing": SHARED_LIMIT, "under_way": 2}, Wait(Until.PUSH_ENDS)),
    ("the share has room", {"pacing": SHARED_LIMIT, "under_way": 1}, PushNow()),
    ("held", {"availability": HELD}, NotNow(LATER, "503 Busy", HELD)),
    ("paused", {"availability": PAUSED}, NotNow(LATER, "paused", PAUSED)),
    ("no budget", {"has_budget": False}, Wait(Until.BUDGET)),
    ("a probe is due", {"availability": NEEDS_PROBE}, PushNow(is_probe=True)),
]
# Where several apply, the first counts.
ORDER: list[tuple[str, dict[str, Any], object]] = [
    ("stopping, then probing", STOPPING | PROBING, STOPS),
    ("stopping, then the limit", STOPPING | AT_LIMIT, STOPS),
    ("probing, then held", PROBING | {"availability": HELD}, Wait(Until.PROBE_ENDS)),
    ("the limit, then held", AT_LIMIT | {"availability": HELD}, Wait(Until.PUSH_ENDS)),
    ("the limit, then the share", AT_LIMIT | {"pacing": None}, Wait(Until.PUSH_ENDS)),
    ("the share, then held", {"pacing": None, "availability": HELD}, Wait(Until.SHARE_IS_READ)),
    (
        "held, then the budget",
        {"availability": HELD, "has_budget": False},
        NotNow(LATER, "503 Busy", HELD),
    ),
    (
        "the budget, then a probe",
        {"availability": NEEDS_PROBE, "has_budget": False},
        Wait(Until.BUDGET),
    ),
]


@pytest.mark.parametrize(
    ("state", "found"),
    [pytest.param(state, found, id=name) for name, state, found in CASES + ORDER],
)
def test_the_first_rule_that_applies_decides(state: dict[str, Any], found: object) -> None:
    assert gate(a_state(**state), START) == found


def a_state(**choices: Any) -> EndpointState:
    values: dict[str, Any] = {
        "is_stopping": False,
        "is_probing": False,
        "under_way": 0,
        "limit": 16,
        "pacing": Pacing(),
        "availability": Open(),
        "has_budget": True,
        "seconds": 7.0,
    }
    return EndpointState(**values | choices)
