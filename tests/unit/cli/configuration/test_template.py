"""Compiled Bicep and ARM templates: every form in which they nest, and their expressions."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cli.configuration import Configuration, read_configuration
from cli.configuration.template import budget
from cli.failure import CommandFailed
from tests.fuzz.damage import JUNK, changed, places
from tests.unit.cli.configuration.reading import faults, shown

SHOP = Path(__file__).parents[3] / "data" / "configuration" / "shop.json"
TEMPLATE_SCHEMA = "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#"
_GROUP = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/local"
TOPIC, NESTED = "Microsoft.EventGrid/topics", "Microsoft.EventGrid/topics/eventSubscriptions"
EXTENSION = "Microsoft.EventGrid/eventSubscriptions"
MODULE = "Microsoft.Resources/deployments"
RECEIVERS = [
    {"name": "crm", "url": "https://127.0.0.1:9001/", "prefixes": ["/a", "/b"]},
    {"name": "erp", "url": "https://127.0.0.1:9002/"},
]


def template(*resources: Mapping[str, Any], **members: Any) -> str:
    return json.dumps({"$schema": TEMPLATE_SCHEMA, **members, "resources": resources}, indent=1)


def read(folder: Path, text: str, parameters: Mapping[str, Any] | None = None) -> Configuration:
    path = folder / "main.json"
    path.write_text(text)
    return read_configuration(path, parameters)


def valued(value: object, **members: Any) -> str:
    """Return a template of one topic with a property, on line 8 if there is nothing else."""
    return template({"type": TOPIC, "name": "orders", "properties": {"value": value}}, **members)


def names(configuration: Configuration) -> list[str]:
    return [each.id.name for each in configuration.resources]


def test_a_template_that_bicep_compiled() -> None:
    found = read_configuration(
        SHOP, {"receivers": json.dumps(RECEIVERS), "deadLetters": "true", "LOCATION": "here"}
    )

    documents = {each.id.name: each.document for each in found.resources}
    assert list(documents) == [
        "shop-test",
        "orders-test",
        "shop-test.payments",
        "orders-test/crm",
        "orders-test/erp",
        "orders-test/audit",
        "shop-test.payments/ledger",
    ]
    assert documents["orders-test"] == {
        "location": "here",
        "tags": {"product": "shop", "environment": "test", "deliveryProfile": "latest"},
        "properties": {
            "inputSchema": "EventGridSchema",
            "publicNetworkAccess": "Enabled",
            "disableLocalAuth": False,
        },
    }
    crm, erp = (documents[f"orders-test/{name}"]["properties"] for name in ("crm", "erp"))
    assert crm["destination"]["properties"] == {
        "endpointUrl": "https://127.0.0.1:9001/",
        "maxEventsPerBatch": 10,
    }
    assert [each["values"] for each in crm["filter"]["advancedFilters"]] == [["/a"], ["/b"]]
    assert erp["filter"]["advancedFilters"] == []
    assert erp["destination"]["properties"]["maxEventsPerBatch"] == 20
    assert crm["labels"] == ["OrderPlaced", "OrderCancelled"]
    account = crm["deadLetterDestination"]["properties"]["resourceId"]
    assert account.startswith(f"{_GROUP}/providers/Microsoft.Storage/storageAccounts/shop")
    audit = documents["orders-test/audit"]["properties"]["destination"]["properties"]
    assert audit == {"endpointUrl": "https://127.0.0.1:9000/shop-test"}
    assert found.left_out == (
        "Microsoft.Storage/storageAccounts, line 108",
        "Microsoft.EventGrid/eventSubscriptions, line 218",
    )
    assert [each.place.line for each in found.resources if "audit" in each.id.name] == [194]


def test_what_a_condition_turns_off_is_not_there() -> None:
    parameters = {"receivers": [], "environment": "production"}

    found = {each.id.name: each.document for each in read_configuration(SHOP, parameters).resources}

    assert "archive" in found
    assert found["orders-production"]["properties"]["disableLocalAuth"] is True


def resource(kind: str, name: str, **members: Any) -> dict[str, Any]:
    return {"type": kind, "name": name, **members}


def module(**inner: Any) -> dict[str, Any]:
    """Return a resource that deploys the template *inner*."""
    return resource(MODULE, "inner", properties={"template": inner})


_LOOPED = "[format('{0}/{1}', 'orders', variables('names')[copyIndex('all')])]"


_STORAGE, _SYSTEM = "Microsoft.Storage/storageAccounts", "Microsoft.EventGrid/systemTopics"
_IN_ORDERS = "topics/orders/eventSubscriptions/crm"
_OF_ACCOUNT = f"{_STORAGE}/acct/providers/Microsoft.EventGrid/eventSubscriptions/crm"
_OF_SYSTEM_TOPIC = "systemTopics/blobs/eventSubscriptions/crm"


@pytest.mark.parametrize(
    ("found", "path"),
    [
        (resource(NESTED, "orders/crm"), _IN_ORDERS),
        (resource(NESTED.upper(), "[concat('orders', '/', 'crm')]"), _IN_ORDERS),
        (
            resource(TOPIC, "orders", resources=[resource("eventSubscriptions", "crm")]),
            _IN_ORDERS,
        ),
        (resource(TOPIC, "orders", resources=[resource(NESTED, "orders/crm")]), _IN_ORDERS),
        (
            resource(f"{TOPIC}/providers/eventSubscriptions", "orders/Microsoft.EventGrid/crm"),
            _IN_ORDERS,
        ),
        (
            resource(
                TOPIC,
                "orders",
                resources=[resource("providers/eventSubscriptions", "Microsoft.EventGrid/crm")],
            ),
            _IN_ORDERS,
        ),
        (resource(EXTENSION, "crm", scope="Microsoft.EventGrid/topics/orders"), _IN_ORDERS),
        (resource(EXTENSION, "crm", scope=f"[resourceId('{TOPIC}', 'orders')]"), _IN_ORDERS),
        (module(resources=[resource(NESTED, "[variables('whole')]")]), _IN_ORDERS),
        (resource(NESTED, _LOOPED, copy={"name": "all", "count": 1}), _IN_ORDERS),
        (resource(EXTENSION, "crm", scope=f"[resourceId('{_STORAGE}', 'acct')]"), _OF_ACCOUNT),
        (resource(EXTENSION, "crm", scope=f"[toLower('{_STORAGE}/acct')]"), _OF_ACCOUNT),
        (
            resource(f"{_STORAGE}/providers/eventSubscriptions", "acct/Microsoft.EventGrid/crm"),
            _OF_ACCOUNT,
        ),
        (resource(f"{_SYSTEM}/eventSubscriptions", "blobs/crm"), _OF_SYSTEM_TOPIC),
    ],
    ids=str,
)
def test_a_subscription_is_found_in_every_form(
    tmp_path: Path, found: dict[str, Any], path: str
) -> None:
    variables = {"names": ["crm"], "whole": "orders/crm"}

    configuration = read(tmp_path, template(found, variables=variables))

    assert configuration.resources[-1].id.path == path
    assert configuration.left_out == ()


def test_a_system_topic_is_read_and_its_account_left_out(tmp_path: Path) -> None:
    properties = {"source": f"[resourceId('{_STORAGE}', 'acct')]"}
    blobs = resource(_SYSTEM, "blobs", properties=properties)

    found = read(tmp_path, template(resource(_STORAGE, "acct"), blobs))

    source = f"{_GROUP}/providers/{_STORAGE}/acct"
    assert [(each.id.path, each.document["properties"]) for each in found.resources] == [
        ("systemTopics/blobs", {"source": source})
    ]
    assert [each.split(",")[0] for each in found.left_out] == [_STORAGE]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("[[text]", "[text]"),
        ("[text", "[text"),
        ("['it''s']", "it's"),
        ("[concat('a', 1, true())]", "a1True"),
        ("[format('{0}-{1}-{{x}}-{2}', 7, 'b', true())]", "7-b-{x}-True"),
        ("[if(equals(1, 2), fail(), 'no')]", "no"),
        ("[coalesce(null(), json('{\"A\": [1, 2]}').a[1])]", 2),
        ("[filter(range(0, 4), lambda('i', less(lambdaVariables('I'), 2)))]", [0, 1]),
        ("[variables('loop')[1]]", "x1"),
        ("[PARAMETERS('Given')]", "given"),
        ("[parameters('default')]", "given!"),
        ("[own.twice('a')]", "aa"),
        ("[tryGet(createObject('a', 1), 'b', 'c')]", None),
    ],
)  # fmt: skip
def test_what_bicep_does_not_write_is_evaluated(
    tmp_path: Path, expression: str, value: object
) -> None:
    doubled = {"value": "[concat(parameters('text'), parameters('text'))]"}
    twice = {"parameters": [{"name": "text", "type": "string"}], "output": doubled}
    text = valued(
        expression,
        parameters={
            "given": {"type": "string"},
            "default": {"type": "string", "defaultValue": "[concat(parameters('given'), '!')]"},
        },
        variables={
            "copy": [{"name": "loop", "count": 2, "input": "[concat('x', copyIndex('loop'))]"}]
        },
        functions=[{"namespace": "own", "members": {"twice": twice}}],
    )

    (found,) = read(tmp_path, text, {"given": "given"}).resources

    assert found.document == {"properties": {"value": value}}


def chain(expression: str, first: object) -> dict[str, object]:
    """Return 40 variables, each made of the one before, ``@``."""
    made = {f"v{n}": expression.replace("@", f"variables('v{n - 1}')") for n in range(1, 40)}
    return {"v0": first, **made}


_BIG = "x" * 1_000_000
_LARGER = "the value is larger than 8,388,608 characters"
_TOTAL = "the values of the template have more than 67,108,864 characters in total"
_MILLIONS = "[map(range(0, 10000), lambda('a', map(range(0, 10000), lambda('b', 1))))]"
_FEW_STEPS = "evaluating the template takes more than 20,000 steps"
_FEW_CHARACTERS = "the values of the template have more than 2,000,000 characters in total"


@pytest.fixture
def small_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tests be quick that spend a whole budget step by step."""
    monkeypatch.setattr(budget, "MAX_STEPS", 20_000)
    monkeypatch.setattr(budget, "MAX_TOTAL", 2_000_000)


@pytest.mark.usefixtures("small_budget")
@pytest.mark.parametrize(
    ("expression", "variables", "words"),
    [
        ("[variables('v39')]", chain("[concat(@, @)]", "x"), _FEW_STEPS),
        ("[variables('v39')]", chain("[createArray(@, @)]", "x"), _FEW_CHARACTERS),
        (_MILLIONS, {}, _FEW_STEPS),
    ],
    ids=["texts", "lists", "loops"],
)
def test_what_multiplies_is_bounded(
    tmp_path: Path, expression: object, variables: Mapping[str, object], words: str
) -> None:
    (fault,) = faults(tmp_path, valued(expression, variables=variables), "main.json")

    assert words in fault
    assert len(fault) < 700


@pytest.mark.parametrize(
    ("expression", "variables", "words"),
    [
        ("[variables('v39')]", chain("[mul(@, @)]", 2**16), "mul(): the number is beyond 64 bits"),
        ("[map(range(0, 100), lambda('a', variables('big')))]", {"big": _BIG}, _TOTAL),
        ("[map(range(0, 9), lambda('a', parameters('big')))]", {}, _LARGER),
        (["[parameters('big')]"] * 9, {}, _LARGER),
        ({"copy": [{"name": "a", "count": 9, "input": "[parameters('big')]"}]}, {}, _LARGER),
        ("[padLeft('a', 99999999999999999)]", {}, "padLeft(): the width must be from 1 to 16"),
        ("[format('{0,9999999}{0,-9999999}', 1)]", {}, _LARGER),
        ("[format('{0:D999999999}', 1)]", {}, "format(): the form D999999999 is not available"),
        ("[split('a', range(0, 9))]", {}, "split(): each delimiter must be text"),
        ("[split(variables('big'), map(range(0, 9), lambda('i', string(lambdaVariables('i')))))]",
         {"big": _BIG}, _LARGER),
        ("[format('{0}{0}{0}{0}{0}{0}{0}{0}', variables('big'))]", {"big": _BIG * 2}, _LARGER),
        ("[replace(variables('big'), 'x', variables('big'))]", {"big": _BIG}, _LARGER),
        ("[replace(variables('big'), '', variables('big'))]", {"big": _BIG},
         "replace(): argument 2 must not be empty"),
        ("[join(range(0, 10000), variables('big'))]", {"big": _BIG}, _LARGER),
        ("[uriComponent(variables('big'))]", {"big": "%" * 3_000_000}, _LARGER),
        ("[mul('a', 999999999)]", {}, "mul(): argument 1 must be a whole number"),
        ("[json(variables('deep'))]", {"deep": "[" * 99_999}, "json(): the value is nested too"),
        ("[json(variables('deep'))]", {"deep": " " + "[" * 101 + "]" * 101},
         "the value is nested deeper than 100 levels"),
        (f"[{'not(' * 999}true(){')' * 999}]", {}, "this is nested too deeply"),
        (f"[concat('{_BIG}')]", {}, "this is longer than 24,576 characters"),
        (f"[add(1, {'9' * 9_999})]", {}, "the expression add(1, 999"),
        (f"[createObject('{'x' * 9_999}', 1).y.{'z' * 999}]", {}, "there is no member 'y'"),
        (f"[createObject('a', 1)['{'x' * 9_999}']]", {}, "there is no member 'xxx"),
        ("[resourceId('x')]", {}, "resourceId() takes at least 2 arguments, not 1"),
    ],
    ids=shown,
)  # fmt: skip
def test_what_a_template_can_cost_is_bounded(
    tmp_path: Path, expression: object, variables: Mapping[str, object], words: str
) -> None:
    parameters = {"big": {"type": "string", "defaultValue": _BIG}}

    (fault,) = faults(
        tmp_path, valued(expression, variables=variables, parameters=parameters), "main.json"
    )

    assert words in fault
    assert len(fault) < 700


def test_a_function_may_call_itself(tmp_path: Path) -> None:
    number = "parameters('n')"
    value = f"[if(equals({number}, 1), 1, mul({number}, own.factorial(sub({number}, 1))))]"
    output = {"type": "int", "value": value}
    function = {"parameters": [{"name": "n", "type": "int"}], "output": output}
    functions = [{"namespace": "own", "members": {"factorial": function}}]

    (found,) = read(tmp_path, valued("[own.factorial(5)]", functions=functions)).resources

    assert found.document["properties"]["value"] == 120


@pytest.mark.usefixtures("small_budget")
def test_loops_in_loops_are_bounded_as_well(tmp_path: Path) -> None:
    inner = {"type": "eventSubscriptions", "name": "[string(copyIndex('inner'))]"}
    outer = {"type": TOPIC, "name": "[format('topic-{0}', copyIndex('outer'))]"}

    def looped(**resource: object) -> str:
        inner_loop = {**inner, "copy": {"name": "inner", "count": 800}, **resource}
        loop = {"name": "outer", "count": 800}
        return template({**outer, "copy": loop, "resources": [inner_loop]})

    for resource, words in (
        ({}, _FEW_STEPS),
        ({"type": f"A.B/{_BIG}", "copy": None}, _FEW_CHARACTERS),
    ):
        assert words in faults(tmp_path, looped(**resource), "main.json")[-1]
    assert len(faults(tmp_path, looped(name="[unknown()]", copy=None), "main.json")) == 1


def test_a_template_has_so_many_faults_at_most(tmp_path: Path) -> None:
    resources = [{"type": TOPIC, "name": f"[unknown{number}()]"} for number in range(200)]

    assert len(faults(tmp_path, template(*resources), "main.json")) == 101


def test_what_the_largest_deployment_of_azure_needs_is_there(tmp_path: Path) -> None:
    """800 event subscriptions, each with some expressions; texts that are used by all of them."""
    properties = {
        "labels": ["[variables('long')]", "[format('{0}-{1}', variables('long'), copyIndex())]"],
        "filter": {"values": "[map(range(0, 25), lambda('i', add(lambdaVariables('i'), 1)))]"},
    }
    loop = {"name": "all", "count": 800}
    own = {"type": NESTED, "name": "[format('orders/{0}', copyIndex())]", "copy": loop}

    found = read(
        tmp_path, template({**own, "properties": properties}, variables={"long": "x" * 1000})
    )

    assert len(found.resources) == 800


def test_faults_of_several_resources_are_told_together(tmp_path: Path) -> None:
    text = template(
        {"type": TOPIC, "name": "[variables('self')]"},
        {"type": TOPIC, "location": "a"},
        {"type": TOPIC, "name": "[parameters('needed')]"},
        {"type": TOPIC, "name": "orders", "copy": {"name": "a", "count": 801}},
        parameters={"needed": {"type": "string"}},
        variables={"self": "[variables('self')]"},
    )

    found = faults(tmp_path, text, "main.json")

    needed = "parameters.needed: this parameter has no value; use --parameter needed=…"
    assert [fault.partition(": ")[2] for fault in found] == [
        f"{words} (all but this: apply --skip 'resources[{index}]')"
        for index, words in enumerate(
            (
                "variables.self: this refers to itself",
                "resources[1]: name is missing",
                needed,
                "resources[3].copy: count must be a number up to 800",
            )
        )
    ]
    assert [int(fault.split(":")[1]) for fault in found] == [9, 16, 4, 27]


def test_parameters_are_read_as_their_type_says(tmp_path: Path) -> None:
    known = {
        "text": {"type": "secureString", "minLength": 1},
        "number": {"type": "int", "allowedValues": [1, 2]},
        "yes": {"type": "bool"},
        "list": {"type": "array", "maxLength": 2},
        "nothing": {"type": "string", "nullable": True},
    }
    text = valued([f"[parameters('{name}')]" for name in known], parameters=known)

    given = {"text": "1", "number": "2", "yes": "true", "list": "[3]"}
    (found,) = read(tmp_path, text, given).resources

    assert found.document["properties"]["value"] == ["1", 2, True, [3], None]


def test_resources_of_other_kinds_are_left_out(tmp_path: Path) -> None:
    kinds = [
        "Microsoft.EventGrid/domains",
        "Microsoft.Web/sites",
        "Microsoft.EventGrid/partnerTopics",
        "Microsoft.Storage/storageAccounts/blobServices",
    ]
    remote = {"templateLink": {"uri": "https://example.com/main.json"}}

    found = read(
        tmp_path,
        template(
            *({"type": kind, "name": "[unknown()]" if "Web" in kind else "a"} for kind in kinds),
            {"type": EXTENSION, "name": "crm"},
            {"type": EXTENSION, "name": "crm", "scope": "[resourceId('A.B/topics', 'orders')]"},
            {"type": MODULE, "name": "remote", "properties": remote},
        ),
    )

    assert [each.split(",")[0] for each in found.left_out] == [
        MODULE,
        *kinds,
        EXTENSION,
        EXTENSION,
    ]
    assert found.resources == ()


@pytest.mark.slow
def test_no_value_anywhere_in_a_template_does_harm(tmp_path: Path) -> None:
    """Each is read, or refused with a line."""
    path = tmp_path / "main.json"
    valid = json.loads(SHOP.read_text())
    refused = 0
    for place, junk in zip(places(valid), itertools.cycle(JUNK)):
        path.write_text(json.dumps(changed(valid, place, junk)))
        try:
            read_configuration(path, {"receivers": RECEIVERS, "deadLetters": True})
        except CommandFailed as error:
            refused += error.message.startswith(f"{path}:")

    assert refused > 50


def test_modules_in_a_loop_know_their_parameters_and_outputs(tmp_path: Path) -> None:
    inner = {
        "parameters": {"name": {"type": "string"}},
        "resources": [resource(TOPIC, "[parameters('name')]")],
        "outputs": {"name": {"type": "string", "value": "[parameters('name')]"}},
    }
    properties = {
        "expressionEvaluationOptions": {"scope": "inner"},
        "parameters": {"name": {"value": "[format('topic-{0}', copyIndex())]"}},
        "template": inner,
    }
    loop = {"name": "each", "count": 2}
    name = "[format('module-{0}', copyIndex())]"
    by_name = "[format('{0}/crm', reference('modules[1]').outputs.name.value)]"
    by_id = f"[reference(resourceId('{MODULE}', 'module-0')).outputs.name.value]"
    resources = {
        "modules": resource(MODULE, name, copy=loop, properties=properties),
        "crm": resource(NESTED, by_name, properties={"labels": [by_id]}),
    }
    text = json.dumps(
        {"$schema": TEMPLATE_SCHEMA, "languageVersion": "2.0", "resources": resources}
    )

    found = read(tmp_path, text)

    assert names(found) == ["topic-0", "topic-1", "topic-1/crm"]
    assert found.resources[2].document == {"properties": {"labels": ["topic-0"]}}
