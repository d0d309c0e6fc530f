"""Seeds find nothing in the server on SQLite, repeat themselves, and each kind of fault occurs."""

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

SEEDS = (*range(10), 11, 34, 57)
REPEATED = 4  # of them, twice in a process that hashes otherwise
WORKERS = 2
OCCURS = {
    *(f"sqlite {each}" for each in ("slow", "hangs", "fails", "fails after", "a sync fails")),
    *(f"sqlite {each}" for each in ("is full", "is locked", "stores what nobody knows")),
    *(f"killed {each}" for each in ("before", "after", "within", "while", "when")),
    *(f"killed at {each}" for each in ("BEGIN", "SELECT", "INSERT", "UPDATE", "DELETE", "COMMIT")),
    *(f"killed in {each}" for each in ("a claim", "a settlement")),
    *("the power fails", "frozen"),
    *(f"ends itself: {each}" for each in ("can't go on", "does not start", "ends in order")),
    *("published 200", "published 503"),
}
_DIGESTS = """
import json
from tests.simulation.runs import play_seed
print(json.dumps([[play_seed(seed, "serve").digest for _ in "12"] for seed in range({})]))
"""


@pytest.fixture(scope="module")
def results() -> Sequence[Result]:
    return list(play_all(SEEDS, WORKERS, "serve"))


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
    command = [sys.executable, "-c", _DIGESTS.format(REPEATED)]
    printed = subprocess.check_output(command, env=environment, cwd=ROOT)

    assert json.loads(printed) == [[each.digest] * 2 for each in results[:REPEATED]]
