"""Parameters of templates and modules: their types, their values, and what is not needed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cli.failure import CommandFailed
from tests.unit.cli.configuration.reading import faults
from tests.unit.cli.configuration.test_template import (
    MODULE,
    NESTED,
    TOPIC,
    names,
    read,
    resource,
    template,
    valued,
)

_TEXT, _WHOLE = {"type": "string"}, {"type": "int"}
_CAT = {"type": "object", "properties": {"kind": _TEXT, "lives": _WHOLE}}
_PET = {
    "type": "object",
    "discriminator": {"propertyName": "kind", "mapping": {"cat": {"$ref": "#/definitions/cat"}}},
}
_SEALED = {"type": "object", "properties": {"a": _TEXT}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("definition", "value", "words"),
    [
        (_WHOLE, "x", "p: this must be a whole number, not text"),
        (_TEXT, 5, "p: this must be text, not a whole number"),
        ({"type": "bool"}, "true", "p: this must be true or false, not text"),
        (_TEXT, None, "p: this must be text, not null"),
        ({"type": "SecureString", "minLength": 3}, "😀", "p: minLength is 3"),
        ({"type": "array", "maxLength": 1}, [1, 2], "p: maxLength is 1"),
        ({"type": "int", "minValue": 3}, 1, "p: minValue is 3"),
        ({"type": "string", "allowedValues": ["A"]}, "a", 'p: the value is none of: ["A"]'),
        ({"type": "array", "allowedValues": ["A", "B"]}, ["C"], "p: the value is none of: "),
        ({"type": "array", "items": _WHOLE}, [1, "x"], "p[1]: this must be a whole number"),
        ({"type": "array", "prefixItems": [_WHOLE], "items": False}, [1, 2],
         "p: this must have 1 elements, not 2"),
        (_SEALED, {}, "p.a: this is missing"),
        (_SEALED, {"A": "x", "b": 1}, "p.b: there is no such member"),
        ({"type": "object", "additionalProperties": _WHOLE}, {"b": "x"}, "p.b: this must be a wh"),
        ({"$ref": "#/definitions/short"}, "long", "p: maxLength is 2"),
        (_PET, {"kind": "dog"}, "p.kind: this must be one of: cat"),
        (_PET, {}, "p.kind: this must be one of: cat"),
        (_PET, {"kind": "cat", "lives": "x"}, "p.lives: this must be a whole number, not text"),
    ],
    ids=str,
)  # fmt: skip
def test_a_value_of_the_wrong_type_is_a_fault(
    tmp_path: Path, definition: Mapping[str, Any], value: object, words: str
) -> None:
    """In a root template as in a module, as Bicep's evaluator has it."""
    definitions = {"short": {"type": "string", "maxLength": 2}, "cat": _CAT}
    own = {"defaultValue": value} if value is not None else {}
    defaulted = valued("[parameters('p')]", parameters={"p": {**definition, **own}})
    inner = json.loads(valued("[parameters('p')]", parameters={"p": definition}))
    options = {"expressionEvaluationOptions": {"scope": "inner"}}
    given = {
        "template": {**inner, "definitions": definitions},
        "parameters": {"p": {"value": value}},
    }
    module = template(resource(MODULE, "inner", properties={**options, **given}))
    in_module = f"resources[0].properties.template.parameters.{words}"

    if value is not None:
        text = json.dumps({**json.loads(defaulted), "definitions": definitions})
        assert f"parameters.{words}" in faults(tmp_path, text, "main.json")[0]
    assert in_module in faults(tmp_path, module, "main.json")[0]


@pytest.mark.parametrize(
    ("definition", "value"),
    [
        ({"type": "array", "allowedValues": ["A", "B"]}, ["A"]),
        ({"type": "array", "allowedValues": [["A"]]}, ["A"]),
        ({"$ref": "#/definitions/short", "nullable": True}, None),
        ({**_SEALED, "properties": {"a": {**_TEXT, "nullable": True}}}, {}),
        (_PET, {"kind": "cat", "lives": 9}),
        ({"type": "object"}, {"anything": 1}),
    ],
    ids=str,
)
def test_a_value_of_the_right_type_is_taken(
    tmp_path: Path, definition: Mapping[str, Any], value: object
) -> None:
    definitions = {"short": {"type": "string", "maxLength": 2}, "cat": _CAT}
    text = valued("[parameters('p')]", parameters={"p": definition}, definitions=definitions)

    (found,) = read(tmp_path, text, {"p": value}).resources

    assert found.document["properties"]["value"] == value


def test_no_value_of_a_parameter_is_quoted(tmp_path: Path) -> None:
    """It may be a secret."""
    text = valued("a", parameters={"p": {"type": "secureObject"}})

    with pytest.raises(CommandFailed, match="the text given is not an object") as caught:
        read(tmp_path, text, {"p": "s3cret"})

    assert "s3cret" not in str(caught.value)


def module(parameters: object, known: Mapping[str, Any], **members: Any) -> dict[str, Any]:
    inner = {
        "parameters": known,
        "resources": [resource(TOPIC, "orders", tags={n: f"[parameters('{n}')]" for n in known})],
    }
    options = {"scope": "inner"}
    properties = {"expressionEvaluationOptions": options, "parameters": parameters}
    return resource(MODULE, "inner", properties={**properties, "template": inner}, **members)


def test_a_parameter_of_a_module_may_be_an_expression_as_a_whole(tmp_path: Path) -> None:
    """As Bicep compiles ``c ? a : b``; with what is not needed nothing happens."""
    chosen = "[if(parameters('c'), createObject('value', 'a'), createObject('value', unknown()))]"
    none = "[if(parameters('c'), createObject('value', null()), createObject('reference', 'b'))]"
    parameters = {
        "chosen": chosen,
        "none": none,
        "unused": {"reference": {"secretName": "x"}},
    }
    known = {"chosen": _TEXT, "none": {"type": "string", "defaultValue": "d"}}
    made = module({**parameters}, known)
    made["properties"]["template"]["parameters"] = {**known, "unused": _TEXT}
    text = template(made, parameters={"c": {"type": "bool", "defaultValue": True}})

    (found,) = read(tmp_path, text).resources

    assert found.document["tags"] == {"chosen": "a", "none": "d"}


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ({"reference": {"secretName": "x"}}, "a: key vaults are not read: give it a value"),
        ("[createObject('reference', 1)]", "a: key vaults are not read: give it a value"),
        ("text", 'a: this must be an object such as {"value": …}'),
        ({}, 'a: this must be an object such as {"value": …}'),
        ("[createArray(1)]", 'a: this must be an object such as {"value": …}'),
    ],
    ids=str,
)
def test_a_parameter_of_a_module_that_has_no_value_is_told(
    tmp_path: Path, argument: object, words: str
) -> None:
    (fault,) = faults(tmp_path, template(module({"a": argument}, {"a": _TEXT})), "main.json")

    assert f"resources[0].properties.parameters.{words}" in fault


def test_what_azure_does_not_need_is_not_evaluated(tmp_path: Path) -> None:
    """A module's name, a topic's identity, outputs, and whatever is of another provider."""
    wrong = "[unknown()]"
    looped = {"copy": {"name": "loop", "count": wrong}, "condition": wrong}
    elsewhere = {"resources": [resource("A.B/c", wrong)], "outputs": {"a": {"value": wrong}}}
    others = resource(MODULE, wrong, properties={"template": elsewhere}, **looped)
    own = module({}, {}, dependsOn=[wrong]) | {"name": wrong, "tags": {"a": wrong}}
    topic = resource(TOPIC, "others", identity={"type": wrong}, dependsOn=[wrong])
    text = template(
        resource("A.B/c", wrong, tags={"a": wrong}, **looped),
        others,
        own,
        topic,
        variables={"unused": wrong},
        outputs={"a": {"type": "string", "value": wrong}},
        extensions={"a": wrong},
    )

    found = read(tmp_path, text)

    assert names(found) == ["others", "orders"]
    assert [each.split(",")[0] for each in found.left_out] == [MODULE, "A.B/c"]


def test_now_and_new_ids_are_for_default_values(tmp_path: Path) -> None:
    known = {
        "day": {"type": "string", "defaultValue": "[utcNow('yyyy-MM-dd')]"},
        "usual": {"type": "string", "defaultValue": "[utcNow()]"},
        "id": {"type": "string", "defaultValue": "[newGuid()]"},
    }
    value = [f"[parameters('{name}')]" for name in ("day", "usual", "id", "id")]

    (found,) = read(tmp_path, valued(value, parameters=known)).resources

    day, usual, first, second = found.document["properties"]["value"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", day)
    assert re.fullmatch(r"\d{8}T\d{6}Z", usual)
    assert first == second


def test_a_template_that_is_an_expression_is_deployed(tmp_path: Path) -> None:
    """As ``loadJsonContent`` of Bicep makes it."""
    inner = {"RESOURCES": [resource(TOPIC, "[[concat('ord', 'ers')]")]}
    properties = {"template": "[variables('$fxv#0')]"}
    text = template(resource(MODULE, "inner", properties=properties), variables={"$fxv#0": inner})

    assert names(read(tmp_path, text)) == ["orders"]


def test_the_id_of_a_topic_does_not_name_a_module(tmp_path: Path) -> None:
    inner = {"resources": [], "outputs": {"endpoint": {"type": "string", "value": "wrong"}}}
    module = resource(MODULE, "orders", properties={"template": inner})
    endpoint = f"[reference(resourceId('{TOPIC}', 'orders')).endpoint]"
    crm = resource(NESTED, "orders/crm", properties={"labels": [endpoint]})

    (_, found) = read(tmp_path, template(module, resource(TOPIC, "orders"), crm)).resources

    assert found.document["properties"]["labels"] == ["https://orders.invalid/api/events"]


def test_outputs_of_modules_are_evaluated_one_by_one(tmp_path: Path) -> None:
    outputs = {
        "good": {"type": "string", "value": "orders"},
        "bad": {"type": "string", "value": "[unknown()]"},
        "list": {"type": "array", "copy": {"count": 2, "input": "[string(copyIndex())]"}},
    }
    inner = {"resources": [], "outputs": outputs}
    properties = {"template": inner, "expressionEvaluationOptions": {"scope": "inner"}}
    of = f"reference(resourceId('{MODULE}', 'inner')).outputs"
    secure = f"listOutputsWithSecureValues(resourceId('{MODULE}', 'inner'), '2025-04-01')"
    labels = [
        f"[{secure}.good]",
        f"[tryGet(tryGet({of}, 'good'), 'value')]",
        f"[coalesce(tryGet({of}, 'none'), 'none')]",
        f"[join({of}.list.value, '-')]",
    ]
    made = resource(
        NESTED, f"[format('{{0}}/crm', {of}.good.value)]", properties={"labels": labels}
    )
    text = template(resource(MODULE, "inner", properties=properties), made)

    (found,) = read(tmp_path, text).resources

    assert found.id.name == "orders/crm"
    assert found.document["properties"]["labels"] == ["orders", "orders", "none", "0-1"]
