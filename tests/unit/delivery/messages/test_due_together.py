"""Deliveries that are due together share a message."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given

from pushgrid.testing.memory import START
from shared.delivery.messages.packing import due_together
from tests.builders import a_delivery
from tests.strategies import waits


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("seconds", "groups"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([10], [[10]], id="one"),
        pytest.param([10, 11], [[10, 11]], id="a tenth"),
        pytest.param([10, 11.1], [[10], [11.1]], id="more than a tenth"),
        pytest.param([1, 1.5], [[1, 1.5]], id="half a second at least"),
        pytest.param([1, 1.6], [[1], [1.6]], id="more than half a second"),
        pytest.param([3600, 3603], [[3600, 3603]], id="three seconds at most"),
        pytest.param([3600, 3603.1], [[3600], [3603.1]], id="more than three seconds"),
        pytest.param([10, 10.8, 11.6], [[10, 10.8], [11.6]], id="no chains: from the first one"),
        pytest.param([11, 10], [[10, 11]], id="the soonest first"),
        pytest.param([-60, -59.6, 0], [[-60, -59.6], [0]], id="overdue"),
    ],
)
def test_what_is_due_together_shares_a_message(
    seconds: list[float], groups: list[list[float]]
) -> None:
    waiting = [(at(each), a_delivery(number)) for number, each in enumerate(seconds)]

    found = list(due_together(waiting, START))

    expected = [
        (at(group[-1]), [a_delivery(seconds.index(each)) for each in group]) for group in groups
    ]
    assert found == expected


@given(waits())
def test_nothing_is_lost_nothing_twice_nothing_early_nothing_very_late(
    dues: list[datetime],
) -> None:
    waiting = [(due, a_delivery(number)) for number, due in enumerate(dues)]

    groups = list(due_together(waiting, START))

    given_back = [delivery.position for _, group in groups for delivery in group]
    assert sorted(given_back) == list(range(len(dues)))
    for due, group in groups:
        for delivery in group:
            late = due - dues[delivery.position]
            wait = dues[delivery.position] - START
            assert timedelta() <= late
            assert late <= min(max(wait * 0.1, timedelta(seconds=0.5)), timedelta(seconds=3))
