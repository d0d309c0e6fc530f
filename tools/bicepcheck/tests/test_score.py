"""The check, measured: seeded faults are found, harmless edits are not refused."""

from __future__ import annotations

import pytest

from tools.bicepcheck import score

MISSED = {"own-faults": [], "unseen-edits": ["un-inf-03"], "held-out-edits": []}
"""Beside the given corpus, which `make infra` measures; docs/infra-check.md says what they are."""


@pytest.mark.parametrize("name", MISSED)
def test_faults_are_found_and_nothing_else(name: str) -> None:
    result = score.score(score.read(score.CORPUS.with_stem(name)))
    assert not result.alarms
    assert result.missed == MISSED[name]


def test_a_corpus_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        score.main(["nowhere.json"])
    assert ended.value.code == 2
    assert "a corpus can't be read" in capsys.readouterr().err


def test_an_edit_replaces_the_occurrence_that_is_meant() -> None:
    entry = {"id": "x", "file": "f", "find": "a", "occurrence": 2, "replace": "b"}
    assert score.mutated("a a a", entry) == "a b a"
    with pytest.raises(LookupError, match="x: f"):
        score.mutated("a", entry)
