"""The housekeeping deletes what is expired, and nothing after a gap in its own runs."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pushgrid.testing.memory import START
from shared.engine.ports import Table
from shared.errors import Conflict
from tests.functional.deployment import MINUTE, SECOND, Deployment, Logged

HOUR = timedelta(hours=1)


def run_housekeeping(app: Deployment) -> None:
    app.housekeeping.run(app.in_a_minute())


def run_every_hour(app: Deployment, times: int) -> list[int]:
    """Return how many payloads each run has left."""
    kept = []
    for _ in range(times):
        run_housekeeping(app)
        kept.append(len(app.payloads.blobs))
        app.clock.advance(HOUR)
    return kept


def test_expired_payloads_are_deleted_once_an_hour(app: Deployment) -> None:
    run_every_hour(app, 25)
    app.payloads.write("old", START - 3 * HOUR, ["x"])

    run_housekeeping(app)
    app.payloads.write("older", START - 5 * HOUR, ["x"])
    app.clock.advance(59 * MINUTE)
    run_housekeeping(app)

    assert [name.split("/")[1].split("-")[0] for name in app.payloads.blobs] == ["older"]


def test_the_first_run_deletes_nothing_for_a_day(app: Deployment) -> None:
    app.payloads.write("old", START - HOUR, ["x"])

    kept = run_every_hour(app, 25)

    assert kept == [1] * 24 + [0]


@pytest.mark.parametrize(("gap", "kept"), [(3 * HOUR, 0), (3 * HOUR + SECOND, 1)])
def test_after_a_gap_nothing_is_deleted_for_a_day(
    app: Deployment, gap: timedelta, kept: int
) -> None:
    """Design §2, order of writes 5: the app was down, and its messages are late."""
    run_every_hour(app, 26)
    app.payloads.write("old", START, ["x"])
    app.clock.advance(gap - HOUR)

    after_gap, *_, in_a_day = run_every_hour(app, 25)

    assert (after_gap, in_a_day) == (kept, 0)


def test_only_one_of_two_instances_deletes(
    app: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.payloads.fail_next("delete_expired")

    def taken(*_: object) -> object:
        raise Conflict

    monkeypatch.setattr(app.resources, "put", taken)

    run_housekeeping(app)

    assert app.resources.get(Table.TOPICS, "state", "housekeeping") is None


@pytest.mark.parametrize("damage", [None, [], {}, {"lastRun": "x"}, {"lastRun": 1, "holdUntil": 2}])
def test_a_damaged_record_of_its_runs_counts_as_none(
    app: Deployment, logged: Logged, damage: object
) -> None:
    """It failed for ever: neither payloads nor tables of attempts were deleted any more."""
    run_every_hour(app, 26)
    app.resources.damage(Table.TOPICS, "state", "housekeeping", damage)
    app.payloads.write("old", START, ["x"])

    kept = run_every_hour(app, 25)

    assert kept == [1] * 24 + [0]
    [line] = logged("document.unreadable")
    named = [line[each] for each in ("table", "partition", "row")]
    assert named == ["topics", "state", "housekeeping"]


def test_a_last_run_that_is_still_to_come_stops_no_housekeeping(
    app: Deployment, logged: Logged
) -> None:
    """A clock that was ahead has run it: nothing was deleted until the others had caught up."""
    run_every_hour(app, 25)
    app.clock.jump(300 * HOUR)
    run_housekeeping(app)
    app.clock.jump(-300 * HOUR)
    app.payloads.write("old", START, ["x"])

    kept = run_every_hour(app, 25)

    assert kept == [1] * 24 + [0]
    assert [line["what"] for line in logged("clock.bounded")] == [
        *("last run of housekeeping", "pause of housekeeping")
    ]
