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

SEEDS = range(20)
REPEATED = 5  # of them, twice in a process that hashes otherwise
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
print(json.dumps([[play_seed(seed, "postgres").digest for _ in "12"] for seed in {}]))
"""


@pytest.fixture(scope="module")
def results() -> Sequence[Result]:
    return list(play_all(SEEDS, WORKERS, "postgres"))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_ledger_finds_nothing(results: Sequence[Result]) -> None:
    assert first_findings(results) == {}
    assert sum(each.promised for each in results) > 4_000


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_each_kind_of_fault_occurs(results: Sequence[Result]) -> None:
    assert not_seen(OCCURS, results) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_seed_repeats_itself_however_strings_are_hashed(results: Sequence[Result]) -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", _DIGESTS.format(list(SEEDS[:REPEATED]))]
    printed = subprocess.check_output(command, env=environment, cwd=ROOT)

    assert json.loads(printed) == [[each.digest] * 2 for each in results[:REPEATED]]
