"""Templates keep the rules of this folder; each mutant breaks one, and no other."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import pytest

from tests.infra import agreement, alerts, policy, roles  # noqa: F401 - add their rules
from tests.infra.deployed import ROOT, RULES, Deployment, documents, table

COMMITTED = json.dumps(documents())
MUTANTS = table("mutants")
VALUES = [(name, on, path) for name, of in table("values").items() for on in of for path in of[on]]


@cache
def broken(text: str) -> set[str]:
    """Return the names of the rules that documents break."""
    deployment = Deployment(json.loads(text))
    return {name for name, check in RULES.items() if list(check(deployment))}


@pytest.mark.parametrize("name", RULES)
def test_a_rule_is_kept(name: str) -> None:
    assert list(RULES[name](Deployment(json.loads(COMMITTED)))) == []


def test_every_rule_has_a_mutant() -> None:
    assert MUTANTS.keys() == RULES.keys()


def test_every_snapshot_has_its_parameters() -> None:
    made = {path.name.partition(".")[0] for path in (ROOT / "infra/tests").glob("*.snapshot.json")}

    assert made == json.loads(COMMITTED)["given"].keys()


def edit(given: dict[str, Any], place: str, path: list[Any], value: list[Any]) -> None:
    """
    Edit a document, or in it a resource by type and name: `default Web/sites/config/appsettings`.

    *value* is a new value, a text and what replaces it, or nothing: what is there is removed.
    Without a path that is the resource, and with a value another resource has its members.
    """
    name, _, resource = place.partition(" ")
    node = given[name]
    if resource:
        resources = node["predictedResources"]
        kind, _, last = resource.rpartition("/")
        node = next(
            each
            for each in resources
            if each["type"].endswith(kind) and re.search(rf"(^|\W){last}\W*$", each["name"])
        )
        if not path:
            resources[:] = [each for each in resources if each is not node]
            resources += [node, node | value[0]] if value else []
            return
    for step in path[:-1]:
        node = node[step]
    match value:
        case [old, new]:
            assert old in node[path[-1]]
            node[path[-1]] = node[path[-1]].replace(old, new)
        case [new] if isinstance(node, list):
            node[path[-1] : path[-1] + 1] = [new]  # or one more
        case [new]:
            node[path[-1]] = new
        case []:
            del node[path[-1]]


@pytest.mark.parametrize(("name", "kind", "path"), VALUES)
def test_a_value_that_is_not_allowed_breaks_its_rule(name: str, kind: str, path: str) -> None:
    mutant = json.loads(COMMITTED)
    steps = [int(step) if step.isdigit() else step for step in path.split(".")]
    edit(mutant, f"everything {kind}/.*", steps, ["not allowed"])

    assert list(RULES[name](Deployment(mutant)))


@pytest.mark.parametrize(
    ("name", "edits"), [(name, edits) for name, each in MUTANTS.items() for edits in each]
)
def test_a_mutant_breaks_its_rule_and_no_other(name: str, edits: list[Any]) -> None:
    mutant = json.loads(COMMITTED)
    for place, path, *value in edits:
        edit(mutant, place, path, value)
    already = broken(COMMITTED)

    assert broken(json.dumps(mutant)) - already == {name} - already
