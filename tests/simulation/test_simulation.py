"""Seeds of each home find nothing, repeat themselves, and each kind of fault has occurred."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from tests.package_list import ROOT
from tests.simulation import runs
from tests.simulation.ledger import Finding
from tests.simulation.plan import STORMS, Plan, Step, draw_plan
from tests.simulation.planted import PLANTED
from tests.simulation.runs import first_findings, not_seen, play_all
from tests.simulation.world import Result

WORKERS = 2


class Played(NamedTuple):
    """What is played on a home."""

    home: str
    seeds: Sequence[int]
    repeated: Sequence[int]  # seeds of them, in a process that hashes otherwise, in this order
    least: int  # promised deliveries
    occurs: set[str]  # in some seed


_ALL = {"frozen", "published 200", "published 503"}
HOMES = (
    Played(
        "functions",
        seeds=range(60),
        repeated=range(40, 60),
        least=20_000,
        occurs={
            *STORMS,
            *("killed before", "killed after", "killed while"),
            *("a clock jumps", "a wrong clock at start", "timers overlap"),
            "frozen before a request",
            *("replayed", "paused", "resumed", "moved", "updated", "expired", "deleted"),
            *(f"endpoint {each}" for each in ("slow", "late", "hangs", "fails", "refused")),
            *(f"endpoint {each}" for each in ("throttles", "lost answers")),
            *(f"endpoint {each}" for each in ("400", "401", "404", "413")),
        },
    ),
    Played(
        "sqlite",
        seeds=(*range(10), 11, 20, 57, 77),
        repeated=(0, 1, 2, 3, 0, 1, 2, 3),
        least=4_000,
        occurs={
            *(f"sqlite {each}" for each in ("slow", "hangs", "fails", "fails after")),
            *(f"sqlite {each}" for each in ("a sync fails", "is full", "is locked")),
            "sqlite stores what nobody knows",
            *(f"killed {each}" for each in ("before", "after", "within", "while", "when")),
            *(f"killed at {each}" for each in ("BEGIN", "SELECT", "INSERT", "UPDATE")),
            *(f"killed at {each}" for each in ("DELETE", "COMMIT")),
            *(f"killed in {each}" for each in ("a claim", "a settlement")),
            "the power fails",
            *(f"ends itself: {each}" for each in ("can't go on", "does not start")),
            "ends itself: ends in order",
        },
    ),
    Played(
        "postgres",
        seeds=(7, 33, 26, 0, 13, 2, 39, 22, 11, 10, 36, 12),
        repeated=(22, 36, 10),
        least=10_000,
        occurs={
            *(f"postgres {each}" for each in ("is lost", "is stored", "comes late")),
            *(f"postgres {each}" for each in ("is doubted", "is away", "is read-only", "is slow")),
            *("late, and takes effect", "fails over", "fails over, and loses commits"),
            *("lost by an asynchronous failover", "a lock is not had", "ended for its silence"),
            *("a machine vanishes in a transaction", "a connection is cut that hangs"),
            *("cut off alone", "judged dead", "taken over", "renumbered", "a clock jumps"),
            *(f"killed {each}" for each in ("before", "after", "while")),
            *(f"killed in {each}" for each in ("a claim", "a settlement", "a birth", "COMMIT")),
            "frozen before a request",
            *(f"ends itself: {each}" for each in ("does not start", "ends in order")),
        },
    ),
)
_DIGESTS = """
import json
from tests.simulation.runs import play_seed
print(json.dumps([play_seed(seed, "{}").digest for seed in {}]))
"""


class Results(NamedTuple):
    """What came of it."""

    of: Played
    results: Sequence[Result]
    again: Sequence[str]  # digests of what was repeated


@pytest.fixture(scope="module", params=HOMES, ids=lambda each: each.home)
def played(request: pytest.FixtureRequest) -> Results:
    of: Played = request.param
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", _DIGESTS.format(of.home, of.repeated)]
    with subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE) as again:
        results = list(play_all(of.seeds, WORKERS, of.home))
        printed, _ = again.communicate()
    return Results(of, results, json.loads(printed))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_ledger_finds_nothing(played: Results) -> None:
    assert first_findings(played.results) == {}
    assert sum(each.promised for each in played.results) > played.of.least


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_each_kind_of_fault_occurs(played: Results) -> None:
    assert not_seen(_ALL | played.of.occurs, played.results) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_seed_repeats_itself_however_strings_are_hashed(played: Results) -> None:
    digests = {each.plan.seed: each.digest for each in played.results}

    assert played.again == [digests[seed] for seed in played.of.repeated]


def test_a_process_goes_on_once_from_a_freeze_that_is_healed() -> None:
    """Else its judgements count as those of one that has just been frozen."""
    freeze = Step(100.0, "freeze", {"process": 0, "seconds": 900, "before": ""})
    plan = draw_plan(0)._replace(steps=(freeze,), heals_at=200.0, ends_at=2000.0)

    story = runs.play(plan, tells=True).story

    assert [at for at, text, _ in story if text.endswith("goes on")] == [200.0]


def test_a_red_plan_shrinks_to_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    red = Result(draw_plan(0), [Finding("lost", 0, "", 0, "")], 0, 0, Counter(), "", ())
    needed = {step.what: step for step in red.plan.steps if step.what != "publish"}.values()
    played = list[Plan]()

    def play(plan: Plan) -> Result:
        played.append(plan)
        is_red = all(step in plan.steps for step in needed)
        return red._replace(plan=plan, findings=red.findings if is_red else ())

    monkeypatch.setattr(runs, "play", play)
    smaller = runs.shrink(red)

    assert sorted(smaller.steps) == sorted(needed)
    assert len(played) <= runs.SHRINKS + 1


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_has_its_place(name: str) -> None:
    bug = PLANTED[name]

    for file, old, _ in ((bug.file, bug.old, bug.new), *bug.also):
        assert (ROOT / file).read_text().count(old) == 1


@pytest.mark.parametrize(
    ("home", "told"),
    [
        ("functions", "storm {'kind': 'stored twice', 'ports': ('queues',), 'share': 0.5}"),
        ("sqlite", "storm {'kind': 'a sync fails', 'ports': ('queues',), 'share': 0.5}"),
        ("postgres", "storm {'kind': 'is doubted', 'share': 0.5}"),
    ],
)
def test_a_storm_is_told_in_the_words_of_its_home(home: str, told: str) -> None:
    storm = Step(1.0, "storm", {"kind": "stored twice", "ports": ("queues",), "share": 0.5})

    assert runs.WORLDS[home].told(storm) == told
