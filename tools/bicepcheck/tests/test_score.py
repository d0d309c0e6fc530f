"""The score's own parts; `make infra` measures the whole corpus."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.bicepcheck import score


def entry(name: str, find: str, replace: str, **more: object) -> score.Entry:
    more = {"id": name, "file": "main.bicep", "description": name, **more}
    return {**more, "find": find, "replace": replace}


FOUND = entry("found", "param location string", "param location int")
HARMLESS = entry("harmless", "targetScope", "// a comment\ntargetScope", control=True)


def test_faults_that_are_found_and_harmless_edits_that_are_accepted_are_good(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = tmp_path / "corpus.json"
    corpus.write_text(json.dumps([FOUND, HARMLESS]))
    assert score.main([str(corpus)]) == 0
    line = "all:       1 of 1 faults found, 0 false alarms on 1 harmless edits\n"
    assert capsys.readouterr().out == line


def test_misses_and_false_alarms_are_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = {**HARMLESS, "id": "known", "control": False, "missed": "why"}
    entries = [{**FOUND, "control": True}, {**HARMLESS, "control": False}, known]
    corpus = tmp_path / "corpus.json"
    corpus.write_text(json.dumps(entries))
    assert score.main([str(corpus)]) == 1
    missed, alarm, total = capsys.readouterr().out.splitlines()
    assert missed == "missed: harmless main.bicep: harmless"
    assert alarm.startswith("false alarm: found found: main.bicep:")
    assert total == "all:       0 of 2 faults found, 1 false alarms on 1 harmless edits"


def test_the_corpus_has_what_the_readme_says() -> None:
    entries = json.loads(score.CORPUS.read_text(encoding="utf-8"))
    readme = (score.HERE / "README.md").read_text(encoding="utf-8")
    for name in ("given", "own", "unseen", "held-out"):
        of_set = [one for one in entries if one["set"] == name]
        harmless = sum("control" in one for one in of_set)
        assert f"| `{name}` | {len(of_set) - harmless} | {harmless} |" in readme
    assert len({one["id"] for one in entries}) == len(entries)


def test_a_missing_corpus_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        score.main(["nowhere.json"])
    assert ended.value.code == 2
    assert "can't read the corpus" in capsys.readouterr().err


def test_an_edit_replaces_the_given_occurrence() -> None:
    change = {"id": "x", "file": "f", "find": "a", "occurrence": 2, "replace": "b"}
    assert score.edited("a a a", change) == "a b a"
    with pytest.raises(LookupError, match="x: f"):
        score.edited("a", change)
