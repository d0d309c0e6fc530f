"""The check, measured: seeded faults are found, harmless edits are not refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.infra import score

OWN = score.CORPUS.with_name("own-faults.json")


@pytest.mark.parametrize(
    ("corpus", "least"), [(score.CORPUS, 0.95), (OWN, 0.95)], ids=["given", "own"]
)
def test_faults_are_found_and_nothing_else(corpus: Path, least: float) -> None:
    result = score.score(score.read(corpus))
    assert not result.alarms
    assert result.share >= least, result.missed


def test_an_edit_replaces_the_occurrence_that_is_meant() -> None:
    entry = {"id": "x", "file": "f", "find": "a", "occurrence": 2, "replace": "b"}
    assert score.mutated("a a a", entry) == "a b a"
    with pytest.raises(LookupError, match="x: f"):
        score.mutated("a", entry)
