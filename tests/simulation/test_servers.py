"""Seeds find nothing in several servers on PostgreSQL, repeat themselves, and all faults occur."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from tests.package_list import ROOT
from tests.simulation.runs import first_findings, not_seen, play_all
from tests.simulation.world import Result

SEEDS = (10, 18, 22, 24, 36, 0, 1, 2, 4, 6, 7, 8, 11, 13, 20, 26, 28, 31, 33, 39)
REPEATED = 5  # of them, again in a process that hashes otherwise
WORKERS = 2
OCCURS = {
    *(f"postgres {each}" for each in ("is lost", "is stored", "comes late", "is doubted")),
    *(f"postgres {each}" for each in ("is away", "is read-only", "is slow")),
    *("late, and takes effect", "fails over", "fails over, and loses commits"),
    *("lost by an asynchronous failover", "a lock is not had", "ended for its silence"),
    *("a machine vanishes in a transaction", "a connection is cut that hangs", "cut off alone"),
    *("judged dead", "taken over", "renumbered", "a clock jumps"),
    *(f"killed {each}" for each in ("before", "after", "while")),
    *(f"killed in {each}" for each in ("a claim", "a settlement", "a birth", "COMMIT")),
    *("frozen", "frozen before a request"),
    *(f"ends itself: {each}" for each in ("does not start", "ends in order")),
    *("published 200", "published 503"),
}
_DIGESTS = """
import json
from tests.simulation.runs import play_seed
print(json.dumps([play_seed(seed, "postgres").digest for seed in {}]))
"""


@pytest.fixture(scope="module")
def played() -> tuple[Sequence[Result], Sequence[str]]:
    """Play the seeds; return their results, and the digests that another process comes to."""
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", _DIGESTS.format(SEEDS[:REPEATED])]
    with subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE) as again:
        results = list(play_all(SEEDS, WORKERS, "postgres"))
        printed, _ = again.communicate()
    return results, json.loads(printed)


@pytest.fixture(scope="module")
def results(played: tuple[Sequence[Result], Sequence[str]]) -> Sequence[Result]:
    return played[0]


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_ledger_finds_nothing(results: Sequence[Result]) -> None:
    assert first_findings(results) == {}
    assert sum(each.promised for each in results) > 10_000


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

    assert digests == [each.digest for each in results[:REPEATED]]
