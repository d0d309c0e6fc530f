"""What a user gets wrong in a template is told in a sentence: file, line, member, remedy."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cli.program import main
from tests.unit.cli.configuration.test_template import (
    EXTENSION,
    MODULE,
    NESTED,
    TEMPLATE_SCHEMA,
    TOPIC,
    template,
)

_OF_PARAMETERS = TEMPLATE_SCHEMA.replace("Template", "Parameters")
ORDERS: Mapping[str, Any] = {"type": TOPIC, "name": "orders"}
_KNOWN = "only modules of the template and resources of Event Grid are known here"
_FUNCTION = {
    "parameters": [{"name": "text", "type": "string"}],
    "output": {"type": "string", "value": "[parameters('text')]"},
}
_FUNCTIONS = [{"namespace": "own", "members": {"twice": _FUNCTION}}]
#: Words of Python, which no user has to know.
_PYTHON = re.compile(
    r"object is not|indices|NoneType|'(str|int|list|dict|bool|float)'|unexpected keyword|positional"
    r"|has no attribute|not subscriptable|unhashable|invalid literal|not supported between|zip\("
    r"|Expecting value|<class|Traceback|\w+(Error|Exception)\b|\b(None|True|False)\b"
)


def value(expression: object, **members: Any) -> str:
    """Return a template of one topic with a property on line 8."""
    resource = {**ORDERS, "properties": {"value": expression}}
    return json.dumps({"$schema": TEMPLATE_SCHEMA, "resources": [resource], **members}, indent=1)


def module(parameters: Any, **names: Any) -> str:
    """Return a template whose module deploys a topic, named by a parameter."""
    inner = {
        "$schema": TEMPLATE_SCHEMA,
        "parameters": {"name": {"type": "string", **names}},
        "resources": [{"type": TOPIC, "name": "[parameters('name')]"}],
        "outputs": {"name": {"type": "string", "value": "[parameters('name')]"}},
    }
    properties = {
        "expressionEvaluationOptions": {"scope": "inner"},
        "parameters": parameters,
        "template": inner,
    }
    return template({"type": MODULE, "name": "inner", "properties": properties})


#: Expressions of a property, and what is told of them after file, line and member.
EXPRESSIONS = {
    "[frobnicate(1)]": "there is no function frobnicate().",
    "[uniqeString('a')]": "there is no function uniqeString(); did you mean 'uniqueString'?",
    "[own.twise('a')]": "there is no function own.twise(); did you mean 'twice'?",
    "[other.twice('a')]": "there is no function other.twice()",
    "[map(range(0, 2), lambda('i', frobnicate(lambdaVariables('i'))))]": (
        "there is no function frobnicate()."
    ),
    "[frobnicate(range(0, 2), lambda('i', lambdaVariables('i')))]": (
        "there is no function frobnicate()."
    ),
    "[pickZones('A.B', 'c', 'd')]": "pickZones() is not available here: it needs Azure.",
    "[replace('a', 'b')]": "replace() takes 3 arguments, not 2",
    "[if(true(), lambda('a', 1), 1)]": ("lambda() is for the arguments of functions such as map()"),
    "[map(range(0, 1), 2)]": "map(): argument 2 must be a lambda, not a whole number",
    "[range(0, 10001)]": "range(): the count must be a number up to 10000",
    "[fail('too small')]": "too small",
    "[own.twice()]": "own.twice() takes 1 argument, not 0",
    "[toLower(1)]": "toLower(): argument 1 must be text, not a whole number",
    "[add('1', 2)]": "add(): argument 1 must be a whole number, not text",
    "[if('yes', 1, 2)]": "if(): argument 1 must be true or false, not text",
    "[reduce(range(0, 2), 0, lambda('i', lambdaVariables('i')))]": (
        "reduce(): argument 3 must be a lambda of 2 to 3 variables, not 1"
    ),
    "[filter(range(0, 2), lambda('i', lambdaVariables('i')))]": (
        "filter(): the lambda must return true or false, not a whole number"
    ),
    "[createArray(1, 2)[2]]": "there is no element 2: the array has 2",
    "[createObject('name', 1).nme]": "there is no member 'nme'",
    "[variables('text').x]": "there is no member 'x' of text",
    "[variables('txt')]": "there is no variable 'txt'; did you mean 'text'?",
    "[parameters('nme')]": "there is no parameter 'nme'; did you mean 'name'?",
    "[lambdaVariables('i')]": "there is no variable 'i' of a lambda around it",
    "[copyIndex()]": "copyIndex(): there is no loop around it",
    "[reference('storage').primaryEndpoints]": f"reference('storage'): {_KNOWN}",
    "[listKeys('storage', '2025-01-01').keys[0].value]": f"listKeys('storage'): {_KNOWN}",
    "[listOutputsWithSecureValues('inner', '2025-04-01').key]": (
        "listOutputsWithSecureValues('inner'): only modules of the template are known here"
    ),
    "[listAccountSas('a', '2025-01-01', createObject())]": (
        "listAccountSas() is not available here: it needs Azure."
    ),
    "[listKey('x')]": ("listKey() is not available here: it needs Azure; did you mean 'listKeys'?"),
    "[utcNow()]": "utcNow(): only the default value of a parameter can use it, as in Azure",
    "[newGuid()]": "newGuid(): only the default value of a parameter can use it, as in Azure",
    "[concat('a', 'b']": "the expression concat('a', 'b' is malformed at character 13",
    "[concat('a)]": "the expression concat('a) is malformed at character 8",
    "[orders]": "the expression orders is malformed at character 1",
    "[format('{0} {1}', 'a')]": "format(): there is no argument for {1}",
    "[format('{0:Q}', 1)]": "format(): the form Q is not available here",
    "[format('{0:00''x''}', 1)]": "format(): the form 00'x' is not available here",
    "[int('many')]": "int(): the text is not a whole number",
    "[div(1, 0)]": "div(): argument 2 must not be 0",
    "[json('{a')]": "json(): the text is not JSON",
    "[dateTimeAdd('yesterday', 'P1D')]": (
        "dateTimeAdd(): argument 1 must be a date such as 2027-01-31T12:00:00Z"
    ),
    "[dateTimeAdd('2027-W01-1', 'P1D')]": (
        "dateTimeAdd(): argument 1 must be a date such as 2027-01-31T12:00:00Z"
    ),
    "[dateTimeToEpoch('20270131')]": (
        "dateTimeToEpoch(): argument 1 must be a date such as 2027-01-31T12:00:00Z"
    ),
    "[dateTimeAdd('2027-01-31T12:00:00.1234567Z', 'P1D')]": (
        "dateTimeAdd(): argument 1 must be a date such as 2027-01-31T12:00:00Z"
    ),
    "[dateTimeAdd('2027-01-31', 'PT0.1234567S')]": (
        "dateTimeAdd(): argument 2 must be a duration such as P1DT12H"
    ),
    "[dateTimeAdd('2027-01-31', 'P1D', 'yyyy%')]": "the form yyyy% of a date is not available here",
    "[cidrHost('10.144.0.0/31', 0)]": "cidrHost(): there is no address 0",
    "[less(1, 'a')]": "less(): a whole number and text can't be compared",
    "[union(createArray(1), createObject('a', 1))]": (
        "union(): the arguments must be all arrays, or all objects"
    ),
    f"[resourceId('{NESTED}', 'orders')]": (
        "resourceId(): argument 1, the type, takes 2 names, not 1"
    ),
}

#: Templates, what is told of them, and what can be skipped to apply the rest.
TEMPLATES = {
    "condition of text": (
        template({**ORDERS, "condition": "yes"}),
        "main.json:7: resources[0].condition: this must be true or false",
        "resources[0]",
    ),
    "count of text": (
        template({**ORDERS, "copy": {"name": "all", "count": "three"}}),
        "main.json:7: resources[0].copy: count must be a number up to 800",
        "resources[0]",
    ),
    "count of a nested loop": (
        template(
            {
                **ORDERS,
                "name": "[concat('orders', copyIndex())]",
                "copy": {"name": "a", "count": 1},
                "resources": [
                    {
                        "type": "eventSubscriptions",
                        "name": "[concat('crm', copyIndex('b'))]",
                        "copy": {"name": "b", "count": "[sub(1, 2)]"},
                    }
                ],
            }
        ),
        "main.json:15: resources[0].resources[0].copy: count must be a number up to 800",
        "resources[0].resources[0]",
    ),
    "loop of a property": (
        value({"copy": [{"name": "list", "count": 2}]}),
        "main.json:10: resources[0].properties.value.copy[0]: input is missing",
        "topic orders",
    ),
    "circle of variables": (
        template(
            {**ORDERS, "name": "[variables('a')]"},
            variables={"a": "[variables('b')]", "b": "[variables('a')]"},
        ),
        "main.json:4: variables.a: this refers to itself",
        "resources[0]",
    ),
    "circle in a loop": (
        template(
            {**ORDERS, "name": "[variables('a')]"},
            variables={"copy": [{"name": "a", "count": 2, "input": "[variables('a')]"}]},
        ),
        "main.json:8: variables.copy[0].input: this refers to itself",
        "resources[0]",
    ),
    "function with an argument of another type": (
        value("[own.twice(1)]", functions=_FUNCTIONS),
        (
            "main.json:18: functions[0].members.twice.parameters[0]: this must be text,"
            " not a whole number"
        ),
        "topic orders",
    ),
    "parameter without a value": (
        value("[parameters('url')]", parameters={"url": {"type": "string"}}),
        "main.json:13: parameters.url: this parameter has no value; use --parameter url=…",
        "topic orders",
    ),
    "parameter of a module without a value": (
        module({}),
        (
            "main.json:15: resources[0].properties.template.parameters.name:"
            " this parameter has no value"
        ),
        "resources[0].properties.template.resources[0]",
    ),
    "parameter of a module of another type": (
        module({"name": {"value": 7}}),
        (
            "main.json:19: resources[0].properties.template.parameters.name: this must be text,"
            " not a whole number"
        ),
        "resources[0].properties.template.resources[0]",
    ),
    "parameter of a module in another form": (
        module({"name": "[if(true(), 'orders', 'archive')]"}),
        (
            "main.json:12: resources[0].properties.parameters.name: this must be an object such as"
            ' {"value": …}'
        ),
        "resources[0].properties.template.resources[0]",
    ),
    "parameter that a module does not have": (
        module({"nme": {"value": "orders"}}, defaultValue="orders"),
        (
            "main.json:12: resources[0].properties.parameters.nme: there is no parameter 'nme';"
            " did you mean 'name'?"
        ),
        "resources[0]",
    ),
    "scope that is no id": (
        template({"type": EXTENSION, "name": "crm", "scope": "orders"}),
        "main.json:7: resources[0].scope: this must be the id of a resource",
        "resources[0]",
    ),
    "name with too few parts": (
        template({"type": NESTED, "name": "crm"}),
        f"main.json:6: resources[0].name: the type {NESTED} takes 2 names, not 1",
        "resources[0]",
    ),
    "name with too many parts": (
        template({"type": NESTED, "name": "orders/crm/x"}),
        f"main.json:6: resources[0].name: the type {NESTED} takes 2 names, not 3",
        "resources[0]",
    ),
    "name that is no text": (
        template({**ORDERS, "name": 7}),
        "main.json:6: resources[0].name: this must be text",
        "resources[0]",
    ),
    "loop of a number": (
        template({**ORDERS, "copy": 7}),
        "main.json:7: resources[0].copy: this must be an object",
        "resources[0]",
    ),
    "function of a number": (
        value("a", functions=[{"namespace": "own", "members": {"twice": 7}}]),
        "main.json:16: functions[0].members.twice: this must be an object",
        None,
    ),
    "functions without a namespace": (
        value("a", functions=[{"members": {}}]),
        "main.json:13: functions[0]: namespace is missing",
        None,
    ),
    "output of a number": (
        value("a", outputs={"o": 7}),
        "main.json:13: outputs.o: this must be an object",
        None,
    ),
    "parameters of a number": (
        value("a", parameters=7),
        "main.json:12: parameters: this must be an object",
        None,
    ),
    "module of a number": (
        template({"type": MODULE, "name": "inner", "properties": 7}),
        "main.json:7: resources[0].properties: this must be an object",
        "resources[0]",
    ),
    "resource that is only created": (
        template({**ORDERS, "@options": {"onlyIfNotExists": []}}),
        (
            "main.json:7: resources[0].@options: onlyIfNotExists is not available here:"
            " remove @onlyIfNotExists()"
        ),
        "topic orders",
    ),
    "no name": (
        template({"type": TOPIC}),
        "main.json:4: resources[0]: name is missing",
        "resources[0]",
    ),
    "no type": (
        template({"name": "orders"}),
        "main.json:4: resources[0]: type is missing",
        "resources[0]",
    ),
    "resource twice": (
        template(ORDERS, {**ORDERS, "name": "Orders"}),
        "main.json:8: resources[1]: Orders is already defined on line 4",
        None,
    ),
    "resources of text": (
        json.dumps({"$schema": TEMPLATE_SCHEMA, "resources": "all"}),
        "main.json:1: resources: this must be an array or an object",
        None,
    ),
    "no $schema": (
        json.dumps({"resources": [ORDERS]}),
        "main.json:1: $schema: a template needs this; it ends with deploymentTemplate.json#",
        None,
    ),
    "parameters for a template": (
        json.dumps({"$schema": _OF_PARAMETERS, "parameters": {}}),
        "main.json:1: these are parameters: name the template, and this by --parameters",
        None,
    ),
    "another document": (
        json.dumps({"openapi": "3.0.0"}),
        "main.json:1: openapi: there is no such member",
        None,
    ),
}
_PARAMETERS = {
    "url": {"type": "string", "minLength": 3},
    "size": {"type": "int", "allowedValues": [1, 2], "defaultValue": 1},
}

#: Arguments of the command for a template with these parameters, and what is told.
ARGUMENTS = {
    ("main.bicep",): (
        "main.bicep: this is Bicep: compile it with 'az bicep build --file main.bicep', and name"
        " the JSON file instead"
    ),
    ("main.json", "--parameters", "main.bicepparam"): (
        "main.bicepparam: this is Bicep: compile it with 'az bicep build-params --file"
        " main.bicepparam --outfile main.parameters.json', and name the JSON file instead"
    ),
    ("main.json", "--parameters", "main.json"): (
        'main.json:1: this is not a parameter file: {"parameters": {NAME: {"value": …}}} is'
        " expected"
    ),
    ("main.json", "--parameter", "uri=https://a.example/"): (
        "main.json:1: there is no parameter 'uri'; did you mean 'url'?"
    ),
    ("main.json", "--parameter", "url=a"): "main.json:13: parameters.url: minLength is 3",
    ("main.json", "--parameter", "url=abc", "--parameter", "size=3"): (
        "main.json:17: parameters.size: the value is none of: [1, 2]"
    ),
    ("main.json", "--parameter", "url=abc", "--parameter", "size=many"): (
        "main.json:17: parameters.size: the text given is not a whole number"
    ),
    ("main.json", "--parameter", "url=abc", "--skip", "topic order"): (
        "main.json: --skip topic order: there is no such resource; did you mean 'topic orders'?"
    ),
}


@pytest.fixture
def told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Any:
    """Apply a template; return what is told, without asking any deployment."""
    monkeypatch.chdir(tmp_path)

    def run(text: str, *arguments: str) -> str:
        for name in ("main.json", "main.bicep", "main.bicepparam"):
            (tmp_path / name).write_text(text)
        options = ("--url", "http://127.0.0.1:9", "--key", "key")
        assert main(["apply", *(arguments or ["main.json"]), *options]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert not _PYTHON.search(printed.err)
        return printed.err.removesuffix("\n")

    return run


@pytest.mark.parametrize(("expression", "sentence"), EXPRESSIONS.items())
def test_a_wrong_expression_is_told(told: Any, expression: str, sentence: str) -> None:
    text = value(
        expression,
        variables={"text": "a"},
        parameters={"name": {"type": "string", "defaultValue": "a"}},
        functions=_FUNCTIONS,
    )

    where = "main.json:8: resources[0].properties.value: "
    assert told(text) == f"{where}{sentence} (all but this: apply --skip 'topic orders')"


@pytest.mark.parametrize(("text", "sentence", "skipped"), TEMPLATES.values(), ids=TEMPLATES)
def test_a_wrong_template_is_told(told: Any, text: str, sentence: str, skipped: str | None) -> None:
    remedy = f" (all but this: apply --skip '{skipped}')" if skipped else ""
    assert told(text) == f"{sentence}{remedy}"


@pytest.mark.parametrize(("arguments", "sentence"), ARGUMENTS.items(), ids=map(" ".join, ARGUMENTS))
def test_wrong_arguments_are_told(told: Any, arguments: tuple[str, ...], sentence: str) -> None:
    text = value("[parameters('url')]", parameters=_PARAMETERS)

    assert told(text, *arguments) == sentence


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        ("createObject('a', 1)[{}]", "there is no such member"),
        ("variables('text')[{}]", "there is no such member of text"),
        ("createArray(1)[length({})]", "there is no such element: the array has 1"),
        (
            "toObject(range(0, 2), lambda('i', {}))",
            "toObject(): the lambda returns a name twice",
        ),
        ("resourceId({}, 'b')", "resourceId(): argument 1, the type, takes 2 names, not 1"),
        ("format({})", "format(): at 0 is no place such as {0}"),
    ],
)
def test_what_is_computed_may_be_a_secret(told: Any, expression: str, sentence: str) -> None:
    text = value(
        "[" + expression.replace("{}", "parameters('secret')") + "]",
        variables={"text": "a"},
        parameters={"secret": {"type": "securestring"}},
    )

    fault = told(text, "main.json", "--parameter", "secret={hunter2/a/b")

    where = "main.json:8: resources[0].properties.value: "
    assert fault == f"{where}{sentence} (all but this: apply --skip 'topic orders')"


def test_a_name_that_does_not_fit_its_type_is_not_shown(told: Any) -> None:
    text = template(
        {"type": NESTED, "name": "[parameters('secret')]"},
        parameters={"secret": {"type": "securestring"}},
    )

    assert "hunter2" not in told(text, "main.json", "--parameter", "secret=hunter2")
