"""`pushgrid dead-letters`, as an operator types it, on a deployment in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

import pytest

from pushgrid.testing.deployment import Pushgrid
from pushgrid.testing.topic import Subscriber
from shared.deadletter.blob_summary import BlobSummary
from tests.commands import Printed, Run
from tests.functional.replaying.replays import PLACED, lose_an_event

Command = Callable[..., Printed]


@pytest.fixture
def command(run: Run) -> Command:
    return partial(run, "dead-letters")


def blobs(command: Command, *options: str) -> list[str]:
    return [each["blob"] for each in command("list", "--json", *options).document]


@pytest.fixture
def crm(pushgrid: Pushgrid) -> Subscriber:
    return lose_an_event(pushgrid)


@pytest.fixture
def invoices(pushgrid: Pushgrid, crm: Subscriber) -> Subscriber:
    """A later dead letter, of a namespace topic."""
    del crm
    topic = pushgrid.topic("invoices", namespace="shop")
    subscriber = topic.subscribe(
        "mail", answers=[500], deliveryConfiguration={"push": {"maxDeliveryCount": 1}}
    )
    pushgrid.advance(hours=2)
    topic.publish({"id": "i-1", "type": "Shop.Invoice", "subject": "/17"})
    pushgrid.advance(minutes=10)
    return subscriber


@pytest.mark.usefixtures("invoices")
def test_all_blobs_are_listed_newest_first(command: Command):
    printed = command("list")

    head, _, first, second = printed.out.splitlines()
    assert printed.code == 0
    assert " ".join(head.split()) == "WRITTEN TOPIC SUBSCRIPTION EVENTS FIRST EVENT REASONS BLOB"
    assert first.split()[:5] == ["2026-02-09", "15:05:00", "shop.invoices", "mail", "1"]
    assert "Maximum delivery attempts was exceeded. (1)" in first
    assert "  shop/invoices/mail/2026/2/9/15/" in first
    assert second.split()[2:5] == ["orders", "crm", "1"]
    assert "UndeliverableDueToHttpBadRequest (1)" in second
    assert "  CRM/2026/2/9/12/" in second


@pytest.mark.usefixtures("invoices")
@pytest.mark.parametrize(
    ("options", "folders"),
    [
        ((), ["shop", "CRM"]),
        (("--topic", "orders"), ["CRM"]),
        (("-t", "shop.invoices"), ["shop"]),
        (("-s", "CRM"), ["CRM"]),
        (("-t", "shop.invoices", "-s", "mail"), ["shop"]),
        (("--since", "2026-02-09T14:00"), ["shop"]),
        (("--until", "2026-02-09T13:00"), ["CRM"]),
        (("--prefix", "CRM/2026"), ["CRM"]),
        (("--reason", "undeliverableduetohttpbadrequest"), ["CRM"]),
        (("--most", "1"), ["shop"]),
    ],
)
def test_some_are_chosen(command: Command, options: tuple[str, ...], folders: list[str]):
    assert [blob.partition("/")[0] for blob in blobs(command, *options)] == folders


@pytest.mark.slow
def test_more_than_a_page_is_read(pushgrid: Pushgrid, crm: Subscriber, command: Command):
    for _ in range(130):
        crm.topic.publish(PLACED)
        pushgrid.advance(minutes=5)

    assert len(blobs(command, "--most", "120")) == 120
    assert len(blobs(command, "--most", "1000")) == 131


@pytest.mark.usefixtures("crm")
def test_a_blob_is_shown(command: Command):
    (blob,) = blobs(command)

    printed = command("show", blob)
    (record,) = command("show", blob, "--json").document

    head, _, line = printed.out.splitlines()
    assert head.split()[-2:] == ["LAST", "ATTEMPT"]
    assert "e-17" in line
    assert "UndeliverableDueToHttpBadRequest" in line
    assert "BadRequest (400)" in line
    assert record["event"]["subject"] == "/orders/17"
    assert record["attempts"] == 1


def test_long_ids_types_and_subjects_are_clipped_but_for_programs(
    pushgrid: Pushgrid, command: Command
):
    orders = pushgrid.topic("orders")
    orders.subscribe("crm", answers=[400])
    orders.publish({"id": "i" * 600, "eventType": "t" * 600, "subject": "s" * 600})
    pushgrid.advance(minutes=5)
    (blob,) = blobs(command)

    printed = command("show", blob).out
    (record,) = command("show", blob, "--json").document

    shown = "".join(printed.split())  # whose cells are folded
    assert all(shown.count(each) < 600 for each in "its")
    assert shown.count("…") == 3
    assert record["event"]["id"] == "i" * 600


@pytest.mark.usefixtures("invoices")
def test_a_blob_of_a_namespace_is_shown(command: Command):
    (blob,) = blobs(command, "-t", "shop.invoices")

    assert "i-1" in command("show", blob).out
    assert "i-1" in command("show", blob, "-t", "shop.invoices", "-s", "mail").out


def test_a_damaged_blob_is_named(pushgrid: Pushgrid, crm: Subscriber, command: Command):
    ((key, body),) = pushgrid._app.dead_letters.blobs.items()
    pushgrid._app.dead_letters.blobs[key] = b"[{}, " + body[1:]
    shown = command("show", key[1]).out
    pushgrid._app.dead_letters.blobs[key] = b"oops"

    assert "unreadable: it has no deadLetterReason" in shown
    failed = command("show", key[1])
    assert (failed.code, key[1] in failed.err, "not a JSON" in failed.err) == (1, True, True)
    assert crm.name == "crm"


def test_records_are_shown_up_to_a_number(pushgrid: Pushgrid, crm: Subscriber, command: Command):
    ((key, body),) = pushgrid._app.dead_letters.blobs.items()
    letters = json.loads(body) * 2500
    pushgrid._app.dead_letters.blobs[key] = json.dumps(letters).encode()

    some, every = (
        command("show", key[1], "--json"),
        command("show", key[1], "--most", "9999", "--json"),
    )

    assert (len(some.document), len(every.document)) == (1000, 2500)
    assert "more than 1000 records; give --most" in some.err
    assert (every.err, crm.name) == ("", "crm")


@pytest.mark.parametrize(
    ("topic_id", "shown"),
    [
        (None, "orders crm -"),  # without a summary
        ("oops", "oops crm 1"),
        ("/resourceGroups/topics", "/resourceGroups/topics crm 1"),
        ("/resourceGroups/topics/providers/Microsoft.EventGrid/topics/sales", "sales crm 1"),
        ("/providers/Microsoft.EventGrid/namespaces/shop/topics/sales", "shop.sales crm 1"),
    ],
)
@pytest.mark.usefixtures("crm")
def test_a_blob_names_its_topic_whatever_its_writer_calls_it(
    pushgrid: Pushgrid, command: Command, topic_id: str | None, shown: str
):
    ((key, _),) = pushgrid._app.dead_letters.blobs.items()
    pushgrid._app.dead_letters.summaries.clear()
    if topic_id:
        pushgrid._app.dead_letters.summaries[key] = BlobSummary(topic_id, {"x": 1})

    line = command("list").out.splitlines()[-1]

    assert " ".join(line.split()[2:5]) == shown


@pytest.mark.parametrize("options", [(), ("-t", "orders"), ("-t", "orders", "-s", "crm")])
def test_there_may_be_none(pushgrid: Pushgrid, command: Command, options: tuple[str, ...]):
    orders = pushgrid.topic("orders")
    orders.subscribe("crm")
    orders.subscribe("drops", deadLetterDestination=None)

    code, out, err = command("list", *options)

    assert (code, err) == (1, "")
    assert out.startswith("There are no dead letters of orders/crm: nothing was written yet")
    assert "five minutes after its last attempt" in out


def test_no_dead_letter_is_promised_without_a_destination(pushgrid: Pushgrid, command: Command):
    pushgrid.topic("orders").subscribe("drops", deadLetterDestination=None)

    code, out, err = command("list")
    of_one = command("list", "-t", "orders", "-s", "drops")

    assert (code, err) == (1, "")
    assert "events that are given up are dropped" in out
    assert (of_one.code, of_one.out) == (1, "")
    assert "has no dead-letter destination" in of_one.err


def test_a_missing_container_stops_no_other(
    pushgrid: Pushgrid, invoices: Subscriber, command: Command
):
    assert invoices.container
    pushgrid._app.dead_letters.missing.add(invoices.container)

    printed = command("list")

    assert printed.code == 1
    assert "orders" in printed.out
    assert "shop.invoices, mail: 404" in printed.err
    assert f"There is no container '{invoices.container}'" in printed.err
    assert "Create it" in printed.err
