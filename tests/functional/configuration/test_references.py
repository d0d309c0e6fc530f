"""Templates that refer to what the deployment answers, and resources that are skipped."""

from __future__ import annotations

import json
import time
from base64 import b64encode
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from cli.configuration import read_configuration
from cli.configuration.deployed import Placeholders
from cli.configuration.template import budget
from cli.deployment import Deployment
from tests.functional.configuration.conftest import Apply, Write
from tests.functional.manage.arm_api import URL, ArmApi, header, hook
from tests.unit.cli.configuration.test_template import MODULE, NESTED, TOPIC, template

_ENDPOINT = "[reference(resourceId('Microsoft.EventGrid/topics', 'orders'), '2025-02-15').endpoint]"
_KEY = "[listKeys(resourceId('Microsoft.EventGrid/topics', 'orders'), '2025-02-15').key1]"


def topic(name: str, **members: Any) -> dict[str, Any]:
    return {"type": TOPIC, "name": name, **members}


def subscription(name: str, *headers: dict[str, Any], **properties: Any) -> dict[str, Any]:
    own = hook(URL, *headers)["properties"] | properties
    return {"type": NESTED, "name": name, "properties": own}


def labels(deployment: Deployment, path: str) -> Any:
    return deployment.get(path)["properties"].get("labels")


CRM, OTHER = "topics/orders/eventSubscriptions/crm", "topics/others/eventSubscriptions/crm"
_REFERRING = (
    topic("orders"),
    topic("others"),
    subscription("others/crm", header(_KEY, "X-Key"), labels=[_ENDPOINT]),
)


def test_what_a_deployment_answers_is_there_after_its_put(
    api: ArmApi, deployment: Deployment, apply: Apply, write: Write
) -> None:
    file = write(template(*_REFERRING), "main.json")

    dry, first, second = apply(file, "--dry-run"), apply(file), apply(file)

    assert (dry[0], dry[1][-2:]) == (
        0,
        ["Dry run: 3 to create.", "1 not checked: what they need does not exist yet."],
    )
    assert (first[0], first[1][-1]) == (0, "3 created.")
    assert second[1] == [f"Nothing to change: the deployment is as {file} says."]
    endpoint = deployment.get("topics/orders")["properties"]["endpoint"]
    assert endpoint.startswith("http")
    assert labels(deployment, OTHER) == [endpoint]
    key = deployment.keys("topics/orders", None)["key1"]
    assert key in str(api.stored("others"))
    assert key not in "".join((*dry[1], *first[1], *second[1]))


def test_answers_reach_all_that_a_module_deploys(
    deployment: Deployment, apply: Apply, write: Write
) -> None:
    """By its parameters, a default value and its outputs."""
    known = {
        "key": {"type": "string"},
        "default": {"type": "string", "defaultValue": "[concat(parameters('key'), '!')]"},
    }
    values = [f"[parameters('{name}')]" for name in known]
    inner = {
        "parameters": known,
        "resources": [subscription(f"others/{name}", labels=values) for name in ("crm", "erp")],
        "outputs": {"endpoint": {"type": "string", "value": _ENDPOINT}},
    }
    properties = {
        "expressionEvaluationOptions": {"scope": "inner"},
        "parameters": {"key": {"value": _KEY}},
        "template": inner,
    }
    output = f"[reference(resourceId('{MODULE}', 'inner')).outputs.endpoint.value]"
    module = {"type": MODULE, "name": "inner", "properties": properties}
    last = subscription("orders/crm", labels=[output])
    file = write(template(topic("orders"), topic("others"), module, last), "main.json")

    code, lines, err = apply(file)

    assert (code, lines[-1], err) == (0, "5 created.", "")
    key = deployment.keys("topics/orders", None)["key1"]
    for name in ("crm", "erp"):
        found = labels(deployment, f"topics/others/eventSubscriptions/{name}")
        assert found == [key, f"{key}!"]
    (endpoint,) = labels(deployment, CRM)
    assert endpoint.endswith("/topics/orders/api/events")
    assert apply(file)[1][0].startswith("Nothing to change")


def test_answers_are_evaluated_as_often_as_they_are_asked(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `pushgrid dev` does: each time has a budget of its own."""
    monkeypatch.setattr(budget, "MAX_STEPS", 100)
    configuration = read_configuration(write(template(*_REFERRING), "main.json"))

    for _ in range(100):
        wanted = configuration.resources[-1].with_answers(Placeholders())
        assert wanted.document == configuration.resources[-1].document


@pytest.mark.parametrize(
    ("expression", "form"),
    [
        ("[{}]", str),
        ("[base64({})]", lambda key: b64encode(key.encode()).decode()),
        ("[uriComponent({})]", lambda key: quote(key, safe="")),
        ("[take({}, 3)]", lambda key: key[:3]),
    ],
)
def test_no_form_of_a_key_is_shown_where_a_difference_is(
    deployment: Deployment,
    apply: Apply,
    write: Write,
    expression: str,
    form: Callable[[str], str],
) -> None:
    """Nor the one before, which no expression names any more."""
    topics, other = (topic("orders"), topic("others")), _KEY.replace("orders", "others")
    apply(write(template(*topics, subscription("orders/crm", labels=[other])), "main.json"))
    wanted = subscription("orders/crm", labels=[expression.format(_KEY[1:-1])])

    code, lines, err = apply(write(template(*topics, wanted), "main.json"))

    assert (code, err) == (0, "")
    assert lines[1] == "    properties.labels: … → …"
    assert labels(deployment, CRM) == [form(deployment.keys("topics/orders", None)["key1"])]


def test_a_key_is_not_shown_where_a_text_replaces_it(
    deployment: Deployment, apply: Apply, write: Write
) -> None:
    """As long as something else in the file names the resource that it is of."""
    before = [subscription(f"orders/{name}", labels=[_KEY]) for name in ("crm", "erp")]
    apply(write(template(topic("orders"), *before), "main.json"))
    plain = subscription("orders/crm", labels=["plain"])

    _, lines, _ = apply(write(template(topic("orders"), plain, before[1]), "main.json"))

    assert lines[1] == '    properties.labels: ["…"] → ["plain"]'
    assert labels(deployment, CRM) == ["plain"]


@pytest.mark.usefixtures("deployment")
@pytest.mark.parametrize("before", ["orders", "others"], ids=["planned", "applied"])
def test_no_form_of_a_key_is_shown_where_a_resource_is_refused(
    apply: Apply, write: Write, before: str
) -> None:
    name = f"[base64({_KEY[1:-1]})]"  # with a character that no header has
    wrong = subscription("orders/crm", header("a", name), header("a", "X Y"))
    apply(write(template(topic(before)), "main.json"))

    code, _, err = apply(write(template(topic("orders"), wrong), "main.json"))

    assert code == 1
    assert "'…' is not a valid header name" in err
    assert "'X Y' is not a valid header name" in err  # as the file says


def test_a_topic_that_refers_to_another_is_made_after_it(
    deployment: Deployment, apply: Apply, write: Write
) -> None:
    closed = "[if(reference('first').disableLocalAuth, false(), true())]"
    schema = (
        "[if(startsWith(reference('first').inputSchema, '<'), 'a', reference('first').inputSchema)]"
    )
    resources = {
        "last": topic("last", properties={"inputSchema": schema, "disableLocalAuth": closed}),
        "first": topic("first"),
    }
    text = json.loads(template()) | {"languageVersion": "2.0", "resources": resources}
    file = write(text, "main.json")

    code, lines, err = apply(file)

    assert (code, lines, err) == (0, ["+ topic first", "+ topic last", "2 created."], "")
    assert apply(file)[1][0].startswith("Nothing to change")
    assert deployment.get("topics/last")["properties"]["disableLocalAuth"] is True


def test_each_of_a_chain_waits_for_the_one_before(
    apply: Apply, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = Deployment.put

    def put_late(*arguments: Any) -> Any:
        time.sleep(0.02)  # long enough for another thread that does not wait
        return put(*arguments)

    monkeypatch.setattr(Deployment, "put", put_late)

    def after(number: int) -> dict[str, Any]:
        id_of = f"resourceId('Microsoft.EventGrid/topics', 'topic{number - 1}')"
        schema = f"[reference({id_of}).inputSchema]"
        return topic(f"topic{number}", properties={"inputSchema": schema} if number else {})

    code, lines, err = apply(write(template(*map(after, reversed(range(6)))), "main.json"))

    assert (code, err) == (0, "")
    assert lines == [*(f"+ topic topic{number}" for number in range(6)), "6 created."]


def test_what_refers_to_a_refused_resource_is_not_tried(
    deployment: Deployment, apply: Apply, write: Write
) -> None:
    wrong = topic("orders", properties={"inputSchema": "Xml"})

    code, lines, err = apply(write(template(wrong, *_REFERRING[1:]), "main.json"))

    assert (code, lines) == (1, ["+ topic others", "1 created, 2 refused."])
    assert "not tried, because topic orders has faults" in err
    assert not deployment.has(OTHER)


def test_a_resource_that_neither_file_nor_deployment_has_is_named(
    deployment: Deployment, apply: Apply, write: Write
) -> None:
    file = write(template(*_REFERRING[1:]), "main.json")

    code, lines, err = apply(file)

    assert (code, lines) == (2, [])
    assert err.startswith(f"{file}:")
    assert err.endswith(
        "the deployment has no topic orders "
        "(all but this: apply --skip 'event subscription others/crm')\n"
    )
    assert not deployment.has("topics/others")


def test_what_is_skipped_must_be_there_if_something_refers_to_it(
    deployment: Deployment, apply: Apply, write: Write
) -> None:
    file = write(template(*_REFERRING), "main.json")

    code, lines, err = apply(file, "--skip", "topic orders")

    assert (code, lines) == (2, [])
    assert "the deployment has no topic orders" in err
    assert not deployment.has("topics/others")
    apply(write(template(topic("orders")), "orders.json"))
    assert apply(file, "--skip", "topic orders")[0] == 0


_TOPIC_ID = "resourceId('Microsoft.EventGrid/topics', 'orders')"


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("split({}.endpoint, '/')[2]", "pushgrid.example"),
        ("parseUri({}.endpoint).host", "pushgrid.example"),
        ("uri({}.endpoint, '/x')", "https://pushgrid.example/x"),
        ("if(equals({}.provisioningState, 'Succeeded'), 'ready', fail('too early'))", "ready"),
        ("string({}.isOurs)", None),
    ],
)
def test_answers_are_taken_apart_before_they_are_there(
    deployment: Deployment, apply: Apply, write: Write, expression: str, found: str | None
) -> None:
    own = subscription("orders/crm", labels=[f"[{expression.format(f'reference({_TOPIC_ID})')}]"])
    file = write(template(topic("orders"), own), "main.json")

    code, lines, err = apply(file)

    if found is None:  # nothing that a topic has
        assert (code, lines) == (2, [])
        assert "labels[0]: there is no member 'isOurs' (all but this: apply --skip" in err
        assert not deployment.has("topics/orders")
    else:
        assert (code, lines[-1], err) == (0, "2 created.", "")
        assert labels(deployment, CRM) == [found]


@pytest.mark.usefixtures("deployment")
def test_a_key_is_taken_apart_in_a_plan(apply: Apply, write: Write) -> None:
    own = subscription("orders/crm", labels=[f"[base64ToString({_KEY[1:-1]})]"])

    code, lines, err = apply(write(template(topic("orders"), own), "main.json"), "--dry-run")

    assert (code, err) == (0, "")
    assert lines[-1] == "1 not checked: what they need does not exist yet."


def test_what_only_the_deployment_knows_is_asked_before_it_is_judged(
    deployment: Deployment, apply: Apply, write: Write
) -> None:
    apply(write(template(topic("orders", tags={"team": "shop"})), "orders.json"))
    tag = f"[reference({_TOPIC_ID}, '2025-02-15', 'full').tags.team]"
    file = write(template(subscription("orders/crm", labels=[tag])), "main.json")

    code, _, err = apply(file)

    assert (code, err) == (0, "")
    assert labels(deployment, CRM) == ["shop"]


def test_two_that_wait_for_each_other_are_refused(apply: Apply, write: Write) -> None:
    def waiting(name: str, other: str) -> dict[str, Any]:
        schema = f"[reference(resourceId('Microsoft.EventGrid/topics', '{other}')).inputSchema]"
        return topic(name, properties={"inputSchema": schema})

    code, lines, err = apply(write(template(waiting("a", "b"), waiting("b", "a")), "main.json"))

    assert (code, lines) == (2, [])
    assert "this waits for itself, by way of a reference" in err


_WRONG = topic("wrong", tags={"a": "[unknown()]"})


def test_nothing_is_applied_in_part(deployment: Deployment, apply: Apply, write: Write) -> None:
    code, lines, err = apply(write(template(topic("orders"), _WRONG), "main.json"))

    assert (code, lines) == (2, [])
    assert err.endswith(
        "resources[1].tags.a: there is no function unknown(). "
        "(all but this: apply --skip 'topic wrong')\n"
    )
    assert not deployment.has("topics/orders")


@pytest.mark.parametrize("name", ["wrong", "topic wrong", "Topic WRONG"])
def test_what_is_skipped_is_told_with_what_is_in_it(apply: Apply, write: Write, name: str) -> None:
    unnamed = {"type": "eventSubscriptions", "name": "[unknown()]"}
    inner = [{"type": "eventSubscriptions", "name": "crm"}, unnamed]
    outer = subscription("wrong/erp", labels=["[unknown()]"])
    file = write(template(topic("orders"), {**_WRONG, "resources": inner}, outer), "main.json")

    code, lines, err = apply(file, "--skip", name)
    document = json.loads("\n".join(apply(file, "--skip", name, "--json")[1]))

    skipped = ["topic wrong", "event subscription wrong/crm", "event subscription wrong/erp"]
    assert (code, err) == (0, "")
    assert lines == ["+ topic orders", *(f"skipped: {each}" for each in skipped), "1 created."]
    assert document["skipped"] == skipped
    assert [each["name"] for each in document["changes"]] == ["orders"]


def test_one_resource_of_a_loop_is_skipped(apply: Apply, write: Write) -> None:
    tags = {"a": "[if(equals(copyIndex(), 1), unknown(), 'b')]"}
    looped = topic("[format('topic{0}', copyIndex())]", tags=tags, copy={"name": "a", "count": 3})
    file = write(template(looped), "main.json")

    code, lines, err = apply(file, "--skip", "topic1")

    assert (code, err) == (0, "")
    assert lines == ["+ topic topic0", "+ topic topic2", "skipped: topic topic1", "2 created."]
    assert "apply --skip 'topic topic1'" in apply(file)[2]


def test_what_has_no_name_is_skipped_by_its_place(apply: Apply, write: Write) -> None:
    file = write(template(topic("orders"), topic("[unknown()]")), "main.json")

    code, lines, _ = apply(file, "--skip", "resources[1]")

    assert (code, lines) == (0, ["+ topic orders", "skipped: resources[1]", "1 created."])
    code, lines, err = apply(file, "--skip", "resources[1]", "--prune")
    assert (code, lines) == (2, [])
    assert "--prune can't be used with --skip 'resources[1]', whose name is not known" in err


def test_what_is_skipped_is_not_pruned(deployment: Deployment, apply: Apply, write: Write) -> None:
    apply(write(template(topic("wrong"), subscription("wrong/crm"), topic("old")), "main.json"))

    code, lines, _ = apply(write(template(_WRONG), "main.json"), "--skip", "wrong", "--prune")

    assert (code, lines) == (0, ["- topic old", "skipped: topic wrong", "1 deleted."])
    assert deployment.has("topics/wrong/eventSubscriptions/crm")


def test_what_a_skipped_resource_stands_in_is_not_pruned(
    deployment: Deployment, apply: Apply, write: Write
) -> None:
    crm = subscription("orders/crm")
    apply(write(template(topic("orders"), topic("old"), crm), "main.json"))

    code, lines, _ = apply(write(template(crm), "main.json"), "--skip", "orders/crm", "--prune")

    assert (code, lines[0], lines[-1]) == (0, "- topic old", "1 deleted.")
    assert deployment.has(CRM)


def test_a_name_to_skip_that_is_not_there_is_refused(apply: Apply, write: Write) -> None:
    file = write({"topics": {"orders": {}}})

    code, lines, err = apply(file, "--skip", "ordres")

    assert (code, lines) == (2, [])
    assert err == f"{file}: --skip ordres: there is no such resource; did you mean 'orders'?\n"
    assert apply(file, "--skip", "orders")[1][0] == "skipped: topic orders"
