"""What a template deploys to another resource group is left out, and not taken for one of here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cli.failure import CommandFailed
from tests.unit.cli.configuration.test_template import (
    EXTENSION,
    MODULE,
    NESTED,
    TOPIC,
    names,
    read,
    template,
)

_GROUP = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups"
_GROUP_NAME = "[resourceGroup().name]"
_OTHER = "11111111-1111-1111-1111-111111111111"


def module(name: str, evaluated: str = "inner", **members: Any) -> Mapping[str, Any]:
    """Return a module that deploys a topic, and has the name of its resource group as an output."""
    topic = {"type": TOPIC, "name": "orders", "tags": {"group": _GROUP_NAME}}
    inner = {
        "resources": [topic],
        "outputs": {"group": {"type": "string", "value": _GROUP_NAME}},
    }
    properties = {"template": inner, "expressionEvaluationOptions": {"scope": evaluated}}
    return {"type": MODULE, "name": name, "properties": properties, **members}


@pytest.mark.parametrize("evaluated", ["inner", "outer"])
@pytest.mark.parametrize(
    "elsewhere", [{"resourceGroup": "[concat('ot', 'her')]"}, {"subscriptionId": _OTHER}]
)
def test_a_module_of_another_group_is_left_out(
    tmp_path: Path, evaluated: str, elsewhere: Mapping[str, str]
) -> None:
    here = module("here", evaluated, resourceGroup="LOCAL")

    found = read(tmp_path, template(module("there", evaluated, **elsewhere), here))

    assert names(found) == ["orders"]
    assert [each.partition(",")[2] for each in found.left_out] == [
        " line 10, of another resource group"
    ]
    assert found.resources[0].document["tags"] == {
        "group": "LOCAL" if evaluated == "inner" else "local"
    }


@pytest.mark.parametrize(
    "other",
    [
        f"{_GROUP}/prod/providers/{TOPIC}/orders",
        f"/subscriptions/{_OTHER}/resourceGroups/local/providers/{TOPIC}/orders",
    ],
)
def test_an_event_subscription_of_another_group_is_left_out(tmp_path: Path, other: str) -> None:
    of = f"[if(equals(copyIndex(), 0), '{other}', resourceId('{TOPIC}', 'orders'))]"
    loop = {"name": "all", "count": 2}
    crm = {"type": EXTENSION, "name": "[concat('crm', copyIndex())]", "scope": of, "copy": loop}

    found = read(tmp_path, template(crm))

    assert names(found) == ["orders/crm1"]
    assert found.left_out == (f"{EXTENSION}, line 4, of another resource group",)


def test_modules_of_one_name_are_told_apart_by_their_groups(tmp_path: Path) -> None:
    """Their ids are what Bicep compiles ``module.outputs`` to."""
    there = {"resourceGroup": "other"}
    ids = [
        f"resourceId('{MODULE}', 'all')",
        f"toUpper(resourceId('other', '{MODULE}', 'all'))",
        f"extensionResourceId('{_GROUP}/other', '{MODULE}', 'all')",
    ]
    labels = [f"[reference({each}).outputs.group.value]" for each in ids]
    crm = {"type": NESTED, "name": "orders/crm", "properties": {"labels": labels}}

    found = read(tmp_path, template(module("all", **there), module("all"), crm))

    assert found.resources[-1].document["properties"]["labels"] == ["local", "other", "other"]


@pytest.mark.parametrize(
    "named",
    [
        f"resourceId('{TOPIC}', 'orders')",
        f"resourceId('other', '{TOPIC}', 'orders')",
    ],
)
def test_reference_knows_only_what_is_here(tmp_path: Path, named: str) -> None:
    """Also if an expression of a module of another group asks, for an output."""
    there = {**module("there", resourceGroup="other")}
    value = f"[reference({named}).endpoint]"
    there["properties"]["template"]["outputs"] = {"endpoint": {"type": "string", "value": value}}
    of = f"reference(resourceId('other', '{MODULE}', 'there')).outputs.endpoint.value"
    crm = {"type": NESTED, "name": "orders/crm", "properties": {"labels": [f"[{of}]"]}}

    with pytest.raises(
        CommandFailed, match="only modules of the template and resources of Event Grid"
    ):
        read(tmp_path, template(there, crm))


@pytest.mark.parametrize(
    ("elsewhere", "told"),
    [({"resourceGroup": "other"}, True), ({"subscriptionId": _OTHER}, True), ({}, False)],
)
def test_an_existing_topic_of_another_group_is_unknown(
    tmp_path: Path, elsewhere: Mapping[str, str], *, told: bool
) -> None:
    crm = {"type": NESTED, "name": "orders/crm"}
    resources = {
        "known": {"type": TOPIC, "name": "orders", "existing": True, **elsewhere},
        "crm": {**crm, "properties": {"labels": ["[reference('known').endpoint]"]}},
    }
    text = template(languageVersion="2.0")
    text = json.dumps({**json.loads(text), "resources": resources})

    if told:
        with pytest.raises(CommandFailed, match="only modules of the template and resources of"):
            read(tmp_path, text)
    else:
        assert names(read(tmp_path, text)) == ["orders/crm"]
