"""`pushgrid topic`, `namespace` and `subscription`, as typed, on a deployment in memory."""

from __future__ import annotations

import pytest

from pushgrid.testing.deployment import Pushgrid
from shared.engine.ports import Table
from shared.metrics import Metric, Series, Span
from tests.builders import a_minute
from tests.commands import Run


@pytest.mark.parametrize("kind", ["topic", "namespace"])
def test_a_second_creation_replaces_no_tags(run: Run, kind: str):
    """Nor does that of a topic in a namespace."""
    assert run(kind, "create", "shop", "--tag", "team=crm").code == 0

    again = run(kind, "create", "Shop")
    if kind == "namespace":
        assert run("topic", "create", "shop.orders").code == 0

    assert (again.code, again.out) == (1, "")
    assert f"there is already a {kind} 'Shop'" in again.err
    assert run(kind, "show", "shop").document["tags"] == {"team": "crm"}


@pytest.mark.parametrize(
    ("arguments", "what", "with_it"),
    [
        (
            "topic delete orders",
            "topic orders",
            " with 2 event subscriptions (orders/crm, orders/erp)",
        ),
        ("subscription delete crm -t orders", "event subscription crm of orders", ""),
        (
            "namespace delete shop",
            "namespace shop",
            " with 1 event subscription (shop.invoices/crm)",
        ),
    ],
)
def test_a_deletion_asks_and_says_what_would_be_lost(
    pushgrid: Pushgrid, run: Run, arguments: str, what: str, with_it: str
):
    orders = pushgrid.topic("orders")
    invoices = pushgrid.topic("invoices", namespace="shop")
    for topic, name in ((orders, "orders"), (invoices, "shop.invoices")):
        topic.subscribe("crm")
        counts = a_minute({Series(Metric.DELIVERY_SUCCESS): 1, Series(Metric.MATCHED): 3})
        pushgrid._app.counts.write([counts._replace(span=Span.HOUR, topic=name)])
    orders.subscribe("erp")
    pushgrid.advance(minutes=2)
    show = arguments.replace("delete", "show").split()

    script = run(*arguments.split())
    declined = run(*arguments.split(), given="n\n", is_terminal=True)

    losses = f"this deletes {what}{with_it}; about 2 waiting events would be dropped"
    assert (script.code, declined.code, run(*show).code) == (2, 1, 0)
    assert script.err == f"pushgrid: this deletes {what}: add --yes to do so without a terminal\n"
    assert declined.err == f"{losses}. Continue? [y/N]: pushgrid: nothing was done\n"

    agreed = run(*arguments.split(), given="y\n", is_terminal=True)

    assert (agreed.code, run(*show).code) == (0, 1)


def test_all_topics_are_listed(pushgrid: Pushgrid, run: Run):
    pushgrid.topic("orders")
    pushgrid.topic("invoices", namespace="shop")

    every = run("topic", "list").out
    inner = run("topic", "list", "--namespace", "shop").out

    assert [line.split()[:2] for line in every.splitlines()[2:]] == [
        ["orders", "EventGridSchema"],
        ["shop.invoices", "CloudEventSchemaV1_0"],
    ]
    assert [line.split()[0] for line in inner.splitlines()[2:]] == ["shop.invoices"]


@pytest.mark.parametrize("kind", ["topic", "namespace"])
def test_a_key_is_replaced_and_the_other_kept(run: Run, kind: str):
    run(kind, "create", "orders")

    before = run(kind, "keys", "orders", "--json").document
    after = run(kind, "keys", "orders", "--regenerate", "key2", "--json").document

    assert after["key1"] == before["key1"]
    assert after["key2"] != before["key2"]


def test_a_topic_whose_row_can_not_be_read_can_be_deleted(pushgrid: Pushgrid, run: Run):
    run("topic", "create", "orders")
    pushgrid._app.resources.damage(Table.TOPICS, "topic", "orders")

    unreadable = run("topic", "show", "orders")
    deleted = run("topic", "delete", "orders", "--yes")

    assert "503" in unreadable.err
    assert deleted.out == "deleted topic orders\n"
    assert "there is no topic 'orders'" in run("topic", "show", "orders").err


@pytest.mark.parametrize(
    ("topic", "member", "value"),
    [
        ("shop.invoices", "eventRetentionInDays=3", 3),
        ("orders", "disableLocalAuth=true", True),
        ("orders", "dataResidencyBoundary=WithinRegion", "WithinRegion"),
        ("orders", "minimumTlsVersionAllowed=1.2", "1.2"),
    ],
)
def test_a_property_is_set(run: Run, topic: str, member: str, value: object):
    run("topic", "create", topic)

    done = run("topic", "update", topic, "--set", member, "--json")

    assert done.document["properties"][member.partition("=")[0]] == value


def test_a_property_is_set_in_any_case(run: Run):
    run("topic", "create", "orders")

    done = run("topic", "update", "orders", "--set", "disablelocalauth=True", "--json")

    assert done.document["properties"]["disableLocalAuth"] is True


def test_every_command_prints_json_for_programs(run: Run):
    run("topic", "create", "orders")
    run("namespace", "create", "shop")
    endpoint = ("--endpoint", "https://crm.example/")
    in_orders = ("crm", "-t", "orders", "--json")

    shown = [run(what, "show", name, "--json") for what, name in
             (("topic", "orders"), ("namespace", "shop"))]  # fmt: skip
    made = run("subscription", "create", *in_orders, *endpoint, "--show-json")
    tagged = run("namespace", "update", "shop", "--tag", "a=b", "--json")
    deleted = [run(what, "delete", name, "--yes", "--json") for what, name in
               (("topic", "orders"), ("namespace", "shop"))]  # fmt: skip

    assert [each.document["name"] for each in shown] == ["orders", "shop"]
    assert made.document["properties"]["destination"]["endpointType"] == "WebHook"
    assert tagged.document["tags"] == {"a": "b"}
    assert [each.document for each in deleted] == [{"deleted": "orders"}, {"deleted": "shop"}]


def test_with_a_readers_key_commands_read_and_say_what_they_may_not_do(
    pushgrid: Pushgrid, run: Run, monkeypatch: pytest.MonkeyPatch
):
    pushgrid.topic("orders").subscribe("crm")
    monkeypatch.delenv("PUSHGRID_ADMIN_KEY")
    monkeypatch.setenv("PUSHGRID_READER_KEY", pushgrid._app.reader_key)

    for reads in ("topic list", "subscription show crm -t orders", "dead-letters jobs"):
        assert run(*reads.split()).code == 0, reads
    before = run("subscription", "list").out
    for refused, action in {
        "topic create invoices": "PUT",
        "subscription pause crm -t orders": "pause",
        "dead-letters replay -t orders": "replays",
        "publish orders --type A.B --data {}": "listKeys",
    }.items():
        said = run(*refused.split())
        assert (said.code, said.out) == (1, ""), refused
        assert "403 AuthorizationFailed: The reader's key does not have" in said.err, refused
        assert action in said.err
        assert "Give the admin key with --admin-key or PUSHGRID_ADMIN_KEY" in said.err
    assert run("subscription", "list").out == before
