"""`pushgrid topic`, `namespace` and `subscription`, as typed, on a deployment in memory."""

from __future__ import annotations

import pytest

from pushgrid.testing.deployment import Pushgrid
from shared.metrics import CountRow, Metric, Series, Span, Sum
from tests.commands import Run, runner

ONE, THREE = (Sum(count, 1, count, count) for count in (1, 3))


@pytest.fixture
def command(
    pushgrid: Pushgrid, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    monkeypatch.setenv("PUSHGRID_URL", pushgrid.url)
    monkeypatch.setenv("PUSHGRID_ADMIN_KEY", pushgrid.admin_key)
    return runner(monkeypatch, capsys)


def test_a_topic_is_not_created_over_another(command: Run):
    assert command("topic", "create", "orders", "--tag", "team=crm").code == 0

    again = command("topic", "create", "Orders")

    assert (again.code, again.out) == (1, "")
    assert "there is already a topic 'Orders'" in again.err
    assert command("topic", "show", "orders").document["tags"] == {"team": "crm"}


def test_a_namespace_keeps_its_tags(command: Run):
    """Neither a second creation nor that of a topic in it replaces them."""
    assert command("namespace", "create", "shop", "--tag", "team=crm").code == 0

    again = command("namespace", "create", "shop")
    inside = command("topic", "create", "shop.orders")

    assert (again.code, inside.code) == (1, 0)
    assert "there is already a namespace 'shop'" in again.err
    assert command("namespace", "show", "shop").document["tags"] == {"team": "crm"}


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
    pushgrid: Pushgrid, command: Run, arguments: str, what: str, with_it: str
):
    orders = pushgrid.topic("orders")
    invoices = pushgrid.topic("invoices", namespace="shop")
    for topic, name in ((orders, "orders"), (invoices, "shop.invoices")):
        topic.subscribe("crm")
        one, three = ({Series(Metric.DELIVERY_SUCCESS): ONE}, {Series(Metric.MATCHED): THREE})
        row = CountRow(Span.MINUTE, pushgrid.now, name, "crm", "i-1", {**one, **three})
        pushgrid._app.counts.write([row])
    orders.subscribe("erp")
    pushgrid.advance(minutes=2)
    show = arguments.replace("delete", "show").split()

    script = command(*arguments.split())
    declined = command(*arguments.split(), given="n\n", is_terminal=True)

    losses = f"this deletes {what}{with_it}; about 2 waiting events would be dropped"
    assert (script.code, declined.code, command(*show).code) == (2, 1, 0)
    assert script.err == f"pushgrid: this deletes {what}: add --yes to do so without a terminal\n"
    assert declined.err == f"{losses}. Continue? [y/N]: pushgrid: nothing was done\n"

    agreed = command(*arguments.split(), given="y\n", is_terminal=True)

    assert (agreed.code, command(*show).code) == (0, 1)


def test_all_topics_are_listed(pushgrid: Pushgrid, command: Run):
    pushgrid.topic("orders")
    pushgrid.topic("invoices", namespace="shop")

    every = command("topic", "list").out
    inner = command("topic", "list", "--namespace", "shop").out

    assert [line.split()[0] for line in every.splitlines()[2:]] == ["orders", "shop.invoices"]
    assert [line.split()[0] for line in inner.splitlines()[2:]] == ["shop.invoices"]


def test_a_number_is_set_as_one(pushgrid: Pushgrid, command: Run):
    pushgrid.topic("invoices", namespace="shop")

    done = command("topic", "update", "shop.invoices", "--set", "eventRetentionInDays=3", "--json")

    assert done.document["properties"]["eventRetentionInDays"] == 3


def test_a_misspelt_property_is_not_set(command: Run):
    command("topic", "create", "orders")

    wrong = command("topic", "update", "orders", "--set", "disableLocalAuht=true")
    right = command("topic", "update", "orders", "--set", "disableLocalAuth=true", "--json")

    assert (wrong.code, wrong.out) == (1, "")
    assert "disableLocalAuht: a topic has no such property" in wrong.err
    assert right.document["properties"]["disableLocalAuth"] is True


@pytest.mark.parametrize(
    "member", ["dataResidencyBoundary=WithinRegion", "minimumTlsVersionAllowed=1.2"]
)
def test_a_known_property_is_set(command: Run, member: str):
    command("topic", "create", "orders")

    assert command("topic", "update", "orders", "--set", member).code == 0


def test_every_command_prints_json_for_programs(command: Run):
    command("topic", "create", "orders")
    command("namespace", "create", "shop")
    endpoint = ("--endpoint", "https://crm.example/")
    in_orders = ("crm", "-t", "orders", "--json")

    shown = [command(what, "show", name, "--json") for what, name in
             (("topic", "orders"), ("namespace", "shop"))]  # fmt: skip
    made = command("subscription", "create", *in_orders, *endpoint, "--show-json")
    tagged = command("namespace", "update", "shop", "--tag", "a=b", "--json")
    deleted = [command(what, "delete", name, "--yes", "--json") for what, name in
               (("topic", "orders"), ("namespace", "shop"))]  # fmt: skip

    assert [each.document["name"] for each in shown] == ["orders", "shop"]
    assert made.document["properties"]["destination"]["endpointType"] == "WebHook"
    assert tagged.document["tags"] == {"a": "b"}
    assert [each.document for each in deleted] == [{"deleted": "orders"}, {"deleted": "shop"}]


@pytest.mark.parametrize(
    ("option", "value"),
    [("--time-to-live", "0m"), ("--event-types", ","), ("--event-types", "a,,b")],
)
def test_an_option_that_says_nothing_is_refused(command: Run, option: str, value: str):
    found = command("subscription", "update", "crm", "-t", "orders", option, value)

    assert (found.code, found.out) == (2, "")
    assert option in found.err


def test_with_a_readers_key_commands_read_and_say_what_they_may_not_do(
    pushgrid: Pushgrid, command: Run, monkeypatch: pytest.MonkeyPatch
):
    pushgrid.topic("orders").subscribe("crm")
    monkeypatch.delenv("PUSHGRID_ADMIN_KEY")
    monkeypatch.setenv("PUSHGRID_READER_KEY", pushgrid._app.reader_key)

    for reads in (
        "topic list",
        "topic show orders",
        "subscription list",
        "subscription show crm -t orders",
        "dead-letters jobs",
    ):
        assert command(*reads.split()).code == 0, reads
    before = command("subscription", "list").out
    for refused, action in {
        "topic create invoices": "PUT",
        "topic keys orders": "listKeys",
        "topic delete orders --yes": "DELETE",
        "subscription pause crm -t orders": "pause",
        "dead-letters replay -t orders": "replays",
        "publish orders --type A.B --data {}": "listKeys",
    }.items():
        said = command(*refused.split())
        assert (said.code, said.out) == (1, ""), refused
        assert "403 AuthorizationFailed: The reader's key does not have" in said.err, refused
        assert action in said.err
        assert "Give the admin key with --admin-key or PUSHGRID_ADMIN_KEY" in said.err
    assert command("subscription", "list").out == before
