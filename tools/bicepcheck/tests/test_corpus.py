"""The corpus: single edits of the example; each fault is found, each harmless edit accepted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tools.bicepcheck.check import check
from tools.bicepcheck.problems import Problem

HERE = Path(__file__).resolve().parents[1]
EXAMPLE = HERE / "example"
CORPUS = json.loads((HERE / "data" / "corpus.json").read_text(encoding="utf-8"))

Entry = dict[str, Any]  # README.md names its members


def problems_of(entry: Entry, folder: Path) -> list[Problem]:
    """Return the problems of a copy of the templates in *folder* with the entry's edit."""
    copy = folder / "infra"
    shutil.copytree(EXAMPLE, copy)
    path = copy / entry["file"]
    pieces = path.read_bytes().decode().split(entry["find"])
    at = entry.get("occurrence", 1)
    assert len(pieces) > at, "the text to replace is not there"
    halves = entry["find"].join(pieces[:at]), entry["find"].join(pieces[at:])
    path.write_bytes(entry["replace"].join(halves).encode())
    return sorted(check(copy).problems)


@pytest.mark.parametrize("entry", CORPUS, ids=lambda entry: entry["id"])
def test_faults_are_found_and_harmless_edits_accepted(entry: Entry, tmp_path: Path) -> None:
    problems = problems_of(entry, tmp_path)

    if entry.get("control"):
        assert problems == []
    else:
        assert bool(problems) != ("missed" in entry)


@pytest.mark.parametrize(
    ("file", "find", "replace", "line", "code"),
    [
        ("modules/app.bicep", "name: 'FC1'", "name: 'Y1'", 54, "policy"),
        ("modules/app.bicep", "serverFarmId: plan.id", "serverFarmId: plan.name", 76, "reference"),
        ("modules/app.bicep", "PUSHGRID_PROFILE:", "PUSHGRID_PROFIL:", 136, "setting"),
        ("modules/storage.bicep", "  'retries-poison'\n", "", 108, "queue"),
        ("modules/storage.bicep", "  'topics'\n", "", 120, "table"),
        ("modules/storage.bicep", "  'poison'\n", "", 93, "container"),
        ("modules/storage.bicep", "'${payloadContainer}/'", "'body/'", 134, "lifecycle"),
        ("modules/alerts.bicep", "window: 'PT30M'", "window: 'PT31M'", 130, "duration"),
        ("modules/alerts.bicep", "Line.oldest_minutes", "Line.oldest", 134, "query"),
        ("modules/rbac.bicep", "974c5e8b", "974c5e8c", 120, "role"),
        ("modules/keyvault.bicep", "'pushgrid-admin-key'", "'admin_key'", 45, "name"),
        ("modules/app.bicep", "empty(subnetId) ?", "!empty(subnetId) ?", 81, "condition"),
        ("main.parameters.json", "AZURE_LOCATION", "LOCATION", 6, "parameters"),
        ("main.bicep", "@secure()\n", "", 149, "secret"),
    ],
)
def test_a_fault_has_its_file_line_and_code(
    file: str, find: str, replace: str, line: int, code: str, tmp_path: Path
) -> None:
    problems = problems_of({"file": file, "find": find, "replace": replace}, tmp_path)

    assert (file, line, code) in {(one.file, one.line, one.code) for one in problems}


def test_the_example_has_no_problem() -> None:
    assert not check(EXAMPLE).problems
