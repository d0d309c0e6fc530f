"""`cli cost` computes from a stored measurement; a new one on the current code must agree."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from bench.scenario import Scenario, ScenarioResult, play
from cli.costs.data import measured
from cli.costs.model import work_operations
from cli.costs.workload import Workload, work_of

TOLERANCE = 0.05  # the number of messages is certain; failures may share one or not
MOST = 0.2  # storage requests per delivered event, published in hundreds
FEWER = "table write attempts"  # on a busy machine: rows that wait are written together
TWICE = 2  # periodic reads depend on when the process began
SCENARIOS = (
    Scenario(name="single events", events=150),
    # Of 1 KiB, small rests find room in messages of others, which the model does not count on.
    Scenario(name="hundreds to three", events=600, batch=100, size=512, subscriptions=3),
    Scenario(name="too large for messages", events=30, batch=3, size=65536, subscriptions=2),
    Scenario(name="failing", events=150, failing=0.3, settings={"PUSHGRID_TIME_SCALE": "60"}),
)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_the_model_predicts_the_storage_operations(
    scenario: Scenario, report: Callable[[str], None]
):
    found = measured()
    counted = play(scenario)

    work = work_of(load_of(counted), found.runs["stored byte"])
    expected = steady(work_operations(work, found.steps))
    asked = steady(counted.operations)
    awake = steady(found.steps["second awake"])
    again = {kind: TWICE * counted.seconds * count for kind, count in awake.items()}
    assert not [kind for kind in asked if kind.startswith("queue create")]  # all are there
    report(f"{scenario.name}: {asked}; expected {expected}, and at most {again} again")
    for kind, count in expected.items():
        slack = max(5, count * TOLERANCE)
        least = 0 if kind == FEWER else count - slack
        assert least <= asked.get(kind, 0) <= count + slack + again.get(kind, 0), kind
    assert sum(asked.values()) <= sum(expected.values()) * (1 + TOLERANCE) + sum(again.values())
    if scenario.batch == 100:
        assert sum(asked.values()) <= MOST * counted.pushes


def load_of(counted: ScenarioResult) -> Workload:
    """Return the scenario as a workload, with the share of attempts that did fail."""
    played = counted.scenario
    return Workload(
        events=played.events,
        fanout=played.subscriptions,
        batch=played.batch,
        size=played.size,
        failure_rate=1 - played.events * played.subscriptions / counted.pushes,
    )


def steady(operations: Mapping[str, float]) -> dict[str, float]:
    """Leave out what depends on how fast things go: how many messages the host gets at a time."""
    return {kind: n for kind, n in operations.items() if not kind.startswith("queue get") and n}
