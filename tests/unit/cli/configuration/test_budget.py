"""The budget of a template, whatever its expressions are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.configuration import read_configuration
from cli.configuration.source import MAX_SIZE, size_of
from cli.configuration.template import budget, template_file
from cli.configuration.template.scope_functions import ALL_FUNCTIONS
from cli.failure import CommandFailed
from tests.unit.cli.configuration.test_template import (
    MODULE,
    NESTED,
    TEMPLATE_SCHEMA,
    TOPIC,
    template,
)

_STEPS, _CHARACTERS = 4_000, 1_000_000  # little: much of it is spent often
_NAMES = [*ALL_FUNCTIONS, "own.f", "lambda"]
_APPLIED = [
    *(f"{name}(@, lambda('a', #))" for name in ("map", "filter", "toObject", "groupBy")),
    *("mapValues(@, lambda('a', #))", "map(@, lambda('b', 'a', #))"),
    *("reduce(@, createArray(), lambda('b', 'a', #))", "sort(@, lambda('a', 'b', #))"),
]
_VALUES = st.sampled_from(
    ["0", "-1", "7", "9999999999", "'a'", "''", "'%9999999d'", "'{0}{0}'", "'A.B/c'"]
    + ["'{0,99999}{0:N99}'", "'2027-01-31'", "'P999999999Y'", "json('1e308')", "null()", "true()"]
    + [f"variables('{name}')" for name in ("text", "list", "object", "deep", "more", "self")]
    + ["range(0, 9999)", "lambdaVariables('a')", "lambda('a', lambdaVariables('a'))"]
)


def _calls(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    called = st.tuples(st.sampled_from(_NAMES), st.lists(inner, max_size=4)).map(
        lambda call: f"{call[0]}({', '.join(call[1])})"
    )
    applied = st.tuples(st.sampled_from(_APPLIED), inner, inner).map(
        lambda parts: parts[0].replace("@", parts[1]).replace("#", parts[2])
    )
    return called | applied | st.tuples(inner, inner).map(lambda pair: f"{pair[0]}[{pair[1]}]")


_EXPRESSIONS = st.recursive(_VALUES, _calls, max_leaves=12).map(lambda text: f"[{text}]")


class _Counted(budget.EvaluationBudget):
    latest: _Counted

    def __init__(self) -> None:
        super().__init__()
        _Counted.latest = self


@given(expressions=st.lists(_EXPRESSIONS, min_size=4, max_size=4))
def test_every_template_is_read_or_refused_within_its_budget(
    tmp_path_factory: pytest.TempPathFactory, expressions: list[str]
) -> None:
    own, more, name, value = expressions
    variables = {
        "text": "x" * 10_000,
        "list": [*range(200), "a", []],
        "object": {str(number): [number] for number in range(200)},
        "deep": " " + "[" * 10_000,
        "more": more,
        "self": [own, "[variables('self')]"],
    }
    function = {"parameters": [{"name": "a"}], "output": {"value": own}}
    document: dict[str, Any] = {
        "$schema": TEMPLATE_SCHEMA,
        "variables": variables,
        "functions": [{"namespace": "own", "members": {"f": function}}],
        "resources": [
            {"type": TOPIC, "name": name},
            {"type": TOPIC, "name": "orders", "properties": {"a": value}},
        ],
    }
    path: Path = tmp_path_factory.mktemp("template") / "main.json"
    path.write_text(json.dumps(document))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(budget, "MAX_STEPS", _STEPS)
        patch.setattr(budget, "MAX_TOTAL", _CHARACTERS)
        patch.setattr(template_file, "EvaluationBudget", _Counted)
        try:
            found = read_configuration(path)
        except CommandFailed as error:
            lines = error.message.splitlines()
            assert all(each.startswith(f"{path}:1: ") and len(each) < 1_000 for each in lines)
        else:
            assert all(size_of(each.document) <= MAX_SIZE for each in found.resources)

    assert _Counted.latest._steps <= _STEPS + 10


_LOOP = {"name": "all", "count": 800}  # the most that Azure takes
_NAME = "[format('m{0}', copyIndex())]"


def _looped(**members: Any) -> str:
    """Return 800 modules with an output, and 800 event subscriptions that use one each."""
    outputs = {"name": {"type": "string", "value": "orders"}}
    properties = {"template": {"resources": [], "outputs": outputs}}
    of = f"reference(resourceId('{MODULE}', format('m{{0}}', copyIndex()))).outputs.name.value"
    crm = f"[format('{{0}}/crm{{1}}', {of}, copyIndex())]"
    return template(
        {"type": MODULE, "name": _NAME, "copy": _LOOP, "properties": properties, **members},
        {"type": NESTED, "name": crm, "copy": _LOOP},
    )


def test_as_many_modules_as_azure_takes_are_found(tmp_path: Path) -> None:
    path = tmp_path / "main.json"
    path.write_text(_looped())

    assert len(read_configuration(path).resources) == 800


def test_a_spent_budget_is_told_where_modules_are_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "main.json"
    path.write_text(_looped(condition="[contains(range(0, 99), 98)]"))
    monkeypatch.setattr(budget, "MAX_STEPS", 10_000)

    with pytest.raises(CommandFailed, match="takes more than 10,000 steps"):
        read_configuration(path)


def test_checking_a_type_takes_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "main.json"
    known = {"numbers": {"type": "array", "items": {"type": "int"}}}
    path.write_text(template(parameters=known))
    monkeypatch.setattr(budget, "MAX_STEPS", 1_000)

    read_configuration(path, {"numbers": [*range(900)]})
    with pytest.raises(CommandFailed, match="takes more than 1,000 steps"):
        read_configuration(path, {"numbers": [*range(1_100)]})
