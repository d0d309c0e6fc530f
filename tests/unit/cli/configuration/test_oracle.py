"""What `apply` makes of templates is what Microsoft's Bicep compiler predicts of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from cli.configuration import read_configuration
from cli.configuration.resources import SENT
from cli.configuration.template.expressions import (
    Expression,
    FunctionCall,
    MemberAccess,
    is_expression,
    parse,
)
from cli.configuration.template.scope_functions import ALL_FUNCTIONS
from tests import bicep
from tests.unit.cli.configuration.test_template import RECEIVERS

_PARAMETERS: Mapping[str, Mapping[str, Any]] = {
    "oracle": {},
    "shop": {"location": "here", "deadLetters": True, "receivers": RECEIVERS},
}
_EXTENSION = "/providers/Microsoft.EventGrid/"
#: What Pushgrid has no place for, or is of another resource group.
_LEFT_OUT = {
    ("shop", "Microsoft.Storage/storageAccounts/shopd665rbjm7ojts"),
    ("shop", "Microsoft.KeyVault/vaults/shop/eventSubscriptions/secrets"),
    ("oracle", "topics/group-obxe5agmcdh26"),
}
#: Functions whose values the compiler does not know.
_UNPREDICTED = {
    "environment": "a snapshot keeps the expression",
    "fail": "it has no value",
    "listKeys": "keys are the deployment's",
    "listOutputsWithSecureValues": "a snapshot keeps the expression",
    "newGuid": "it differs each time",
    "utcNow": "it differs each time",
}
Documents = Mapping[str, Mapping[str, Any]]  # of resources, by their path


def predicted(name: str) -> Documents:
    """Return the resources of a snapshot."""
    document = json.loads((bicep.TEMPLATES / f"{name}.snapshot.json").read_text("utf-8"))
    return {path_of(each["id"]): each for each in document["predictedResources"]}


def path_of(arm_id: str) -> str:
    below = arm_id.partition("/providers/")[2].removeprefix("Microsoft.EventGrid/")
    return below.replace(_EXTENSION, "/")


PREDICTED = {name: predicted(name) for name in _PARAMETERS}
RESOURCES = [(name, path) for name, each in PREDICTED.items() for path in each]


@pytest.fixture(scope="module")
def resolved() -> Mapping[str, Documents]:
    """Read each template as `apply` does."""
    return {
        name: {
            each.id.path.replace(_EXTENSION, "/"): each.document
            for each in read_configuration(bicep.TEMPLATES / f"{name}.json", given).resources
        }
        for name, given in _PARAMETERS.items()
    }


def members(document: Mapping[str, Any]) -> dict[str, str]:
    """Return each value of a document as text: 1 is not true. What is null is not sent."""
    sent = {name: document[name] for name in SENT if document.get(name) is not None}
    return {name: json.dumps(value, sort_keys=True) for name, value in _parts(sent)}


def _parts(sent: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in sent.items():
        yield from value.items() if isinstance(value, Mapping) else [(name, value)]


@pytest.mark.parametrize(
    ("template", "path"), [each for each in RESOURCES if each not in _LEFT_OUT]
)
def test_a_resource_is_what_the_compiler_predicts(
    resolved: Mapping[str, Documents], template: str, path: str
) -> None:
    assert members(resolved[template][path]) == members(PREDICTED[template][path])


def test_there_are_no_other_resources(resolved: Mapping[str, Documents]) -> None:
    found = {(name, path) for name, each in resolved.items() for path in each}

    assert set(RESOURCES) - found == _LEFT_OUT
    assert found - set(RESOURCES) == set()


def test_every_function_has_a_case() -> None:
    called = {each.casefold() for name in _PARAMETERS for each in calls(compiled(name))}

    without = {each.name for each in ALL_FUNCTIONS.values() if each.name.casefold() not in called}
    assert without == set(_UNPREDICTED)


def compiled(name: str) -> Any:
    return json.loads((bicep.TEMPLATES / f"{name}.json").read_text("utf-8"))


def calls(value: Any) -> Iterator[str]:
    """Yield the names of the functions that the expressions of a value call."""
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    if isinstance(value, list):
        for each in value:
            yield from calls(each)
    elif isinstance(value, str) and is_expression(value):
        yield from _called(parse(value[1:-1]))


def _called(expression: Expression) -> Iterator[str]:
    if isinstance(expression, FunctionCall):
        yield expression.name
        for each in expression.arguments:
            yield from _called(each)
    elif isinstance(expression, MemberAccess):
        yield from _called(expression.of)
        yield from _called(expression.key)


@pytest.mark.slow
@bicep.needs_compiler
def test_the_templates_are_as_the_compiler_makes_them() -> None:
    """Else `make templates` writes them anew. A newer compiler may make the same."""
    made = {name: without_version(json.loads(text)) for name, text in bicep.generated().items()}

    committed = {
        name: without_version(json.loads((bicep.TEMPLATES / name).read_text("utf-8")))
        for name in made
    }
    assert committed == made


def without_version(value: Any) -> Any:
    if isinstance(value, list):
        return [without_version(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    return {name: without_version(each) for name, each in value.items() if name != "_generator"}
