"""Sixty seeds find nothing in the app, each repeats itself, and each kind of fault has occurred."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence

import pytest

from tests.package_list import ROOT
from tests.simulation import runs
from tests.simulation.ledger import Finding
from tests.simulation.plan import STORMS, Plan, draw_plan
from tests.simulation.planted import PLANTED
from tests.simulation.runs import first_findings, not_seen, play_all
from tests.simulation.world import Result

SEEDS = range(60)
REPEATED = range(40, 60)  # in a process that hashes otherwise
WORKERS = 2
OCCURS = {
    *STORMS,
    *("killed before", "killed after", "killed while", "frozen"),
    *("a clock jumps", "a wrong clock at start", "timers overlap"),
    *("published 200", "published 503", "frozen before a request"),
    *("replayed", "paused", "resumed", "moved", "updated", "expired", "deleted"),
    *(f"endpoint {each}" for each in ("slow", "late", "hangs", "fails", "refused", "throttles")),
    *(f"endpoint {each}" for each in ("lost answers", "400", "401", "404", "413")),
}
_DIGESTS = """
import json
from tests.simulation.runs import play_seed
print(json.dumps([play_seed(seed).digest for seed in {}]))
"""


@pytest.fixture(scope="module")
def played() -> tuple[Sequence[Result], Sequence[str]]:
    """Play the seeds; return their results, and the digests that another process comes to."""
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", _DIGESTS.format(REPEATED)]
    with subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE) as again:
        results = list(play_all(SEEDS, WORKERS))
        printed, _ = again.communicate()
    return results, json.loads(printed)


@pytest.fixture(scope="module")
def results(played: tuple[Sequence[Result], Sequence[str]]) -> Sequence[Result]:
    return played[0]


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_ledger_finds_nothing(results: Sequence[Result]) -> None:
    assert first_findings(results) == {}
    assert sum(each.promised for each in results) > 20_000


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_each_kind_of_fault_occurs(results: Sequence[Result]) -> None:
    assert not_seen(OCCURS, results) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_seed_repeats_itself_however_strings_are_hashed(
    played: tuple[Sequence[Result], Sequence[str]],
) -> None:
    results, digests = played

    assert digests == [results[seed].digest for seed in REPEATED]


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
