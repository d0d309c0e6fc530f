"""A plan, and what carrying it out does, on the management API in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.configuration import Action, Change, carry_out, plan, read_configuration
from cli.configuration.planning import differences
from cli.deployment import Deployment
from cli.failure import CommandFailed
from pushgrid.testing.memory import answered
from shared.engine.operations.operator_authorization import Operators
from shared.http import Failure, NotAnswered
from tests.functional.configuration.conftest import Write
from tests.functional.manage.arm_api import (
    CRM,
    GROUP,
    ORDERS,
    SHOP_CRM,
    URL,
    ArmApi,
    header,
    hook,
    push,
)
from tests.unit.cli.configuration.test_template import NESTED, template

KEYS = {"key1": "bG9jYWwta2V5", "key2": "localkey2222"}
HEADERS = "properties.destination.properties.deliveryAttributeMappings"
HIDDEN = json.dumps([header("Hidden", "X-Key")])
ABSENT = "https://localhost:9/absent"
DOWN = NotAnswered(Failure.SOCKET, "refused", 0.1)


FULL: dict[str, Any] = {
    "topics": {
        "orders": {
            "location": "local",
            "tags": {"team": "shop"},
            "keys": KEYS,
            "eventSubscriptions": {
                "crm": hook(URL, header("s3cret", "X-Key")),
                "erp": hook(f"{URL}&two"),
            },
        }
    },
    "namespaces": {
        "shop": {"topics": {"orders": {"properties": {}, "eventSubscriptions": {"crm": push()}}}}
    },
}


def changed(**members: Any) -> Any:
    """Return a copy of FULL in which the topic ``orders`` has other members."""
    copy = json.loads(json.dumps(FULL))
    copy["topics"]["orders"] |= members
    return copy


SOURCE = "/subscriptions/s1/resourceGroups/rg/providers/Microsoft.Storage/storageAccounts/acct"
SOURCES: dict[str, Any] = {
    "systemTopics": {
        "blobs": {
            "properties": {"source": SOURCE, "topicType": "Microsoft.Storage.StorageAccounts"},
            "eventSubscriptions": {"nested": hook()},
        }
    },
    "storageAccounts": {
        "acct": {"eventSubscriptions": {"scoped": hook(URL, header("s3cret", "X-Key"))}}
    },
    "deployments": {"this-deployment": {"eventSubscriptions": {"ops": hook()}}},
}
Apply = Callable[..., list[Change]]


@pytest.fixture
def apply(deployment: Deployment, write: Write) -> Apply:
    """Apply a configuration; return what has happened."""

    def applied(content: Any, *, prune: bool = False) -> list[Change]:
        done: list[Change] = []
        configuration = read_configuration(write(content))
        carry_out(deployment, plan(deployment, configuration, prune=prune), done.append)
        return done

    return applied


def summary(changes: list[Change]) -> list[tuple[str, str]]:
    return [(str(each.action), each.id.name) for each in changes]


def faults(changes: list[Change], folder: Path) -> list[str]:
    return [fault.removeprefix(f"{folder}/") for each in changes for fault in each.faults]


def test_the_second_time_nothing_changes(api: ArmApi, apply: Apply) -> None:
    first, handshakes = apply(FULL), len(api.pusher.sent)
    rows = api.rows()
    second = apply(FULL)

    names = ["shop", "orders", "shop.orders", "orders/crm", "orders/erp", "shop.orders/crm"]
    assert summary(first) == [("create", name) for name in names]
    assert summary(second) == [("unchanged", name) for name in names]
    assert not any(each.faults or each.warnings or each.differences for each in first + second)
    assert api.json("POST", f"{ORDERS}/listKeys") == KEYS
    assert (len(api.pusher.sent), handshakes) == (3, 3)
    assert api.rows() == rows, "not even the same again is written"


def test_a_secret_that_signs_deliveries_is_made_once_and_told_once(
    api: ArmApi, apply: Apply
) -> None:
    api.reconfigure(new_key=lambda: "k" * 32)
    body = hook(URL, header("Generated", "webhook-signature"))
    content = {"topics": {"orders": {"eventSubscriptions": {"crm": body}}}}

    _, made = apply(content)
    api.json("POST", f"{CRM}/rotateSecret", {"secret": f"whsec_{'r' * 32}"})
    second = apply(content)

    told = f"signing secret, which is not shown again: whsec_{'k' * 32}"
    assert made.differences == (told,)
    assert summary(second) == [("unchanged", "orders"), ("unchanged", "orders/crm")]
    assert api.in_force().signing == (f"whsec_{'r' * 32}", f"whsec_{'k' * 32}")


@pytest.mark.parametrize(
    ("content", "name", "differences"),
    [
        (changed(tags={"team": "crm"}), "orders", ('tags.team: "shop" → "crm"',)),
        (changed(tags={}), "orders", ('tags: {"team": "shop"} → nothing',)),
        (
            changed(keys={**KEYS, "key1": "localkey1111"}),
            "orders",
            ("keys.key1: the one in the file",),
        ),
        (
            changed(eventSubscriptions={"crm": hook(URL, header("another", "X-Key"))}),
            "orders/crm",
            ("a value that is not shown, such as a secret",),
        ),
        (
            changed(eventSubscriptions={"crm": hook(labels=["a"])}),
            "orders/crm",
            (f"{HEADERS}: {HIDDEN} → nothing", 'properties.labels: nothing → ["a"]'),
        ),
    ],
)
def test_only_what_differs_is_updated(
    apply: Apply, content: Any, name: str, differences: tuple[str, ...]
) -> None:
    apply(FULL)

    done = apply(content)

    (update,) = [each for each in done if each.action is not Action.UNCHANGED]
    assert (str(update.action), update.id.name) == ("update", name)
    assert update.differences == differences
    assert "another" not in str(update.document)
    assert "localkey1111" not in str(update.document)
    assert {each.action for each in apply(content)} == {Action.UNCHANGED}


def test_a_plan_changes_nothing(
    api: ArmApi, apply: Apply, deployment: Deployment, write: Write
) -> None:
    apply(FULL)
    before, sent = api.rows(), len(api.pusher.sent)

    planned = plan(deployment, read_configuration(write(changed(tags={"a": "b"}))), prune=True)

    assert {str(each.action) for each in planned} == {"unchanged", "update"}
    assert (api.rows(), len(api.pusher.sent)) == (before, sent)


def test_pruning_deletes_contents_first_and_last_of_all(api: ArmApi, apply: Apply) -> None:
    apply(FULL)

    kept = apply({"topics": {"orders": FULL["topics"]["orders"] | {"eventSubscriptions": {}}}})
    done = apply({"topics": {"other-topic": {}, "orders": {"eventSubscriptions": {}}}}, prune=True)

    assert summary(kept) == [("unchanged", "orders")]
    assert summary(done) == [
        ("create", "other-topic"),
        ("update", "orders"),
        ("delete", "shop.orders/crm"),
        ("delete", "shop.orders"),
        ("delete", "shop"),
        ("delete", "orders/erp"),
        ("delete", "orders/crm"),
    ]
    assert [each["name"] for each in api.json("GET", ORDERS.rpartition("/")[0])["value"]] == [
        "orders",
        "other-topic",
    ]


def test_pruning_keeps_what_is_named_in_another_case(apply: Apply) -> None:
    shop = {"Shop": {"topics": {"Orders": FULL["namespaces"]["shop"]["topics"]["orders"]}}}
    apply({"topics": {"Orders": FULL["topics"]["orders"]}, "namespaces": shop})

    done = apply(FULL, prune=True)

    assert not [each for each in done if each.action is Action.DELETE]


def test_storage_accounts_and_system_topics_are_sources(api: ArmApi, apply: Apply) -> None:
    first = apply(SOURCES)
    rows = api.rows()

    assert [(each.id.kind, each.id.name) for each in first] == [
        ("system topic", "blobs"),
        ("event subscription", "system-this-deployment/ops"),
        ("event subscription", "system-acct/scoped"),
        ("event subscription of system topic", "blobs/nested"),
    ]
    assert summary(first) == [("create", each.id.name) for each in first]
    scoped = api.json("GET", f"{SOURCE}/providers/Microsoft.EventGrid/eventSubscriptions/scoped")
    assert scoped["id"].startswith(SOURCE)
    assert api.call("GET", f"{GROUP}/systemTopics/blobs/eventSubscriptions/nested").status == 200
    assert summary(apply(SOURCES)) == [("unchanged", each.id.name) for each in first]
    assert api.rows() == rows

    pruned = apply({"systemTopics": SOURCES["systemTopics"]}, prune=True)
    assert sorted(summary(pruned)[2:]) == [
        ("delete", "system-acct/scoped"),
        ("delete", "system-this-deployment/ops"),
    ]
    assert summary(apply({}, prune=True)) == [("delete", "blobs/nested"), ("delete", "blobs")]
    assert api.json("GET", f"{GROUP}/eventSubscriptions")["value"] == []


def test_an_account_that_the_deployment_does_not_know_is_refused(
    apply: Apply, tmp_path: Path
) -> None:
    done = apply({"storageAccounts": {"stranger": {"eventSubscriptions": {"crm": hook()}}}})

    (fault,) = faults(done, tmp_path)
    place = "pushgrid.json:5: storageAccounts.stranger.eventSubscriptions.crm: "
    assert fault.startswith(f"{place}The storage account 'stranger' is not known here")


def test_what_the_deployment_decides_is_no_difference() -> None:
    before = {"provisioningState": "Succeeded", "systemData": {"createdAt": "x"}}
    after = {"provisioningState": "AwaitingManualAction", "systemData": {"createdAt": "y"}}

    found = differences({"properties": before}, {"properties": after | {"labels": ["a"]}})

    assert found == ('properties.labels: nothing → ["a"]',)


def test_a_named_subscription_keeps_its_topic(
    deployment: Deployment, apply: Apply, write: Write
) -> None:
    """A template can hold subscriptions of a topic that another one creates."""
    apply(FULL)
    file = write(template({"type": NESTED, "name": "orders/crm", **hook()}))

    planned = plan(deployment, read_configuration(file), prune=True)

    assert ("delete", "orders") not in summary(list(planned))
    assert ("delete", "orders/erp") in summary(list(planned))


def test_what_the_deployment_refuses_is_told_with_its_line_and_the_rest_goes_on(
    api: ArmApi, apply: Apply, tmp_path: Path
) -> None:
    wrong = hook("ftp://crm.example", labels=["a"])
    refused = hook("https://no.example/")
    api.pusher.script("https://no.example/", DOWN)
    content = {
        "topics": {
            "orders": {
                "eventSubscriptions": {"wrong": wrong, "refused": refused, "crm": hook()},
            },
            "others": {"tags": {"deliveryProfile": "1999"}, "eventSubscriptions": {"crm": hook()}},
        }
    }

    first, second = apply(content), apply(content)

    found = faults(first, tmp_path)
    own = "topics.orders.eventSubscriptions"
    lines = json.dumps(content, indent=2).splitlines()
    named = [lines[int(each.split(":")[1]) - 1].strip() for each in found]
    assert named == [
        '"deliveryProfile": "1999"',
        '"endpointUrl": "ftp://crm.example"',
        '"refused": {',
        '"crm": {',
    ]
    assert "topics.others.tags.deliveryProfile: There is no delivery profile '1999'" in found[0]
    assert f"{own}.wrong.properties.destination.properties.endpointUrl: Invalid" in found[1]
    assert f"{own}.refused: " in found[2]
    assert "not tried, because topic others has faults" in found[3]
    assert ("create", "orders/crm") in summary([each for each in first if not each.faults])
    assert len(faults(second, tmp_path)) == 4
    assert ("unchanged", "orders/crm") in summary(second)


def test_consent_is_assumed_of_an_endpoint_that_is_down(api: ArmApi, apply: Apply) -> None:
    one, two = ({"crm": {**each(ABSENT), "consent": "assumed"}} for each in (hook, push))
    local = {
        "topics": {"orders": {"eventSubscriptions": one}},
        "namespaces": {"shop": {"topics": {"orders": {"eventSubscriptions": two}}}},
    }
    api.pusher.script(ABSENT, DOWN)

    done = apply(local)

    assert not any(each.faults for each in done)
    assert [api.state(path) for path in (CRM, SHOP_CRM)] == ["Succeeded"] * 2
    assert api.pusher.sent == []
    assert {each.action for each in apply(local)} == {Action.UNCHANGED}


def test_a_deployment_that_is_not_local_warns_of_keys_and_asks_endpoints(
    api: ArmApi, apply: Apply
) -> None:
    api.reconfigure(has_local_shortcuts=False)
    api.pusher.script(ABSENT, DOWN)
    down = {**hook(ABSENT), "consent": "assumed"}

    done = apply(changed(eventSubscriptions={"crm": {**hook(), "consent": "assumed"}, "erp": down}))

    topic, crm, erp = (
        next(each for each in done if each.id.name == name)
        for name in ("orders", "orders/crm", "orders/erp")
    )
    assert [warning.partition(":")[0] for warning in topic.warnings] == ["keys.key1", "keys.key2"]
    assert "PUSHGRID_LOCAL_SHORTCUTS" in topic.warnings[0]
    assert not topic.faults + crm.faults
    assert "The deployment does not assume consent" in erp.faults[0]


def test_a_pending_consent_can_be_assumed_instead(api: ArmApi, apply: Apply) -> None:
    api.pusher.script(ABSENT, answered(200))
    crm = hook(ABSENT)
    apply({"topics": {"orders": {"eventSubscriptions": {"crm": crm}}}})
    pending = api.state()

    done = apply(
        {"topics": {"orders": {"eventSubscriptions": {"crm": crm | {"consent": "assumed"}}}}}
    )

    assert (pending, api.state()) == ("AwaitingManualAction", "Succeeded")
    assert summary(done)[1] == ("update", "orders/crm")


def test_a_wrong_key_ends_it_at_once(deployment: Deployment, api: ArmApi, write: Write) -> None:
    api.reconfigure(operators=Operators(admin_key="another"))

    with pytest.raises(CommandFailed) as refused:
        plan(deployment, read_configuration(write(FULL)))

    assert (refused.value.status, refused.value.code) == (401, 1)


@pytest.mark.parametrize(
    ("method", "status"), [("put", 401), ("put", 403), ("put", None), ("delete", None)]
)
def test_no_resource_is_at_fault_when_the_caller_or_the_deployment_is(
    deployment: Deployment,
    apply: Apply,
    write: Write,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    status: int | None,
) -> None:
    """It is refused, or gone, between the plan and what is done."""
    apply(FULL)
    file = write({"topics": {"orders": {"tags": {"a": "b"}}}})
    changes = plan(deployment, read_configuration(file), prune=True)

    def fail(*_: Any) -> Any:
        raise CommandFailed("no", status=status)

    monkeypatch.setattr(Deployment, method, fail)
    with pytest.raises(CommandFailed):
        carry_out(deployment, changes, lambda _: None)
