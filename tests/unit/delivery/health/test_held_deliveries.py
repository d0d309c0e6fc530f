"""What a hold does to a delivery, where the deployment's switches decide."""

from __future__ import annotations

from typing import Any

import pytest

from pushgrid.testing.memory import START
from shared.delivery.health.availability import Held, hold_back
from shared.delivery.messages.message import EPOCH
from shared.delivery.outcome import Outcome
from shared.delivery.policy import End, EndReason
from shared.delivery.requests.push_request import Loaded, in_common
from shared.subscriptions.subscription import Batching
from tests.builders import DEAD, a_delivery, a_subscription, an_attempt, terms, text
from tests.unit.delivery.observed import at

NEW = a_delivery()
TRIED = a_delivery(attempts=2, last=an_attempt())
PROBATION = an_attempt(Outcome.PROBATION, None)
HELD = a_delivery(last=PROBATION)
COUNTS: dict[str, Any] = {"probation_counts_attempt": True}
ENDS: dict[str, Any] = {"probation_ends_events": True}
ENDED = End(EndReason.PROBATION, "why")
EXHAUSTED = End(EndReason.MAX_ATTEMPTS, "all 3 attempts made")
BUSY, NOT_FOUND = Outcome.BUSY, Outcome.NOT_FOUND


def test_what_was_never_tried_may_share_a_request_whenever_it_was_held() -> None:
    held, rules = Held(at(60), "why"), terms(batching=Batching(max_events=10))
    kept, later = (hold_back(NEW, held, rules, now)[0] for now in (START, at(1)))
    shared = {in_common(Loaded(each, text()), a_subscription(), rules) for each in (NEW, kept)}

    assert kept == later
    assert len(shared) == 1
    assert not kept.was_tried_with(later)


def test_a_pause_is_no_hold() -> None:
    held = Held(at(60), "why", is_pause=True)

    assert hold_back(NEW, held, terms(dead_letter=DEAD, **ENDS), START) == (NEW, None)


@pytest.mark.parametrize(
    ("switches", "dead_letter", "probation", "delivery", "kept", "end"),
    [
        pytest.param({}, DEAD, NOT_FOUND, TRIED, {}, None, id="neither"),
        pytest.param({}, DEAD, BUSY, NEW, {"attempts": 0}, None, id="never tried"),
        pytest.param({}, DEAD, None, NEW, {"attempts": 0}, None, id="never tried: delayed"),
        pytest.param(COUNTS, None, BUSY, HELD, {"attempts": 1}, None, id="counts what was held"),
        pytest.param(COUNTS | ENDS, DEAD, None, TRIED, {}, None, id="delayed delivery alone"),
        pytest.param(COUNTS, None, BUSY, NEW, {"attempts": 1}, None, id="counts a new event"),
        pytest.param(COUNTS, None, BUSY, TRIED, {"attempts": 3}, EXHAUSTED, id="counts the last"),
        pytest.param(
            COUNTS, None, BUSY, a_delivery(attempts=3, last=PROBATION), {}, None, id="counts once"
        ),
        pytest.param(ENDS, DEAD, Outcome.UNAUTHORIZED, TRIED, {"attempts": 2}, ENDED, id="401"),
        pytest.param(ENDS, DEAD, Outcome.FORBIDDEN, TRIED, {"attempts": 2}, ENDED, id="403"),
        pytest.param(ENDS, DEAD, NOT_FOUND, TRIED, {"attempts": 2}, ENDED, id="404"),
        pytest.param(ENDS, DEAD, BUSY, TRIED, {}, None, id="ends: no client error"),
        pytest.param(
            ENDS, None, NOT_FOUND, TRIED, {"attempts": 2}, ENDED, id="ends: no destination"
        ),
        pytest.param(ENDS, DEAD, NOT_FOUND, NEW, {"attempts": 0}, ENDED, id="ends: never tried"),
    ],
)
def test_holding_is_no_attempt_and_no_end_but_where_so_set(
    switches: dict[str, Any],
    dead_letter: Any,
    probation: Outcome | None,
    delivery: Any,
    kept: dict[str, Any],
    end: End | None,
) -> None:
    """``Probation`` is the last outcome of what was counted or ended (contract §3.6)."""
    rules = terms(max_attempts=3, dead_letter=dead_letter, **switches)

    found = hold_back(delivery, Held(at(60), "why", probation), rules, START)

    last = PROBATION if kept.get("attempts") else PROBATION._replace(at=EPOCH)
    expected = a_delivery(**kept, last=last) if kept else delivery
    assert found == (expected, end)
