"""`pushgrid publish` says what matched, on a deployment in memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pushgrid.testing.deployment import Pushgrid
from tests.commands import Run


def over(least: float) -> dict[str, Any]:
    return {"operatorType": "NumberGreaterThan", "key": "data.total", "value": least}


@pytest.mark.parametrize(
    ("namespace", "events"),
    [
        ("shop", [{"type": "Placed"}] * 2001),
        (None, [{"type": "Placed", "data": "x" * 1000}] * 1500),
    ],
    ids=["by number", "by size"],
)
def test_a_file_takes_as_many_requests_as_it_needs(
    pushgrid: Pushgrid, run: Run, namespace: str | None, events: list[Any]
):
    pushgrid.topic("orders", namespace=namespace)
    name = f"{namespace}.orders" if namespace else "orders"

    sent = run("publish", name, "-", given="\n".join(map(json.dumps, events)))

    assert sent.out == f"published {len(events)} events to {name}; 0 event subscriptions matched\n"


def test_events_of_an_own_schema_are_published_as_they_are(pushgrid: Pushgrid, run: Run):
    constant = {"id": {"sourceField": "order"}, "eventType": {"defaultValue": "Shop.Placed"}}
    constant |= {member: {"defaultValue": "1"} for member in ("subject", "dataVersion")}
    mapping = {"inputSchemaMappingType": "Json", "properties": constant}
    crm = pushgrid.topic(
        "orders", inputSchema="CustomEventSchema", inputSchemaMapping=mapping
    ).subscribe("crm")

    crm.topic.publish({"order": "6"})
    sent = run("publish", "orders", "-", given='{"order": "7"}')
    described = run("publish", "orders", "--type", "Placed")

    assert sent.out == "published 1 event to orders; 1 event subscription matched\n"
    assert (described.code, crm.received) == (2, [{"order": "6"}, {"order": "7"}])


PUBLISH = ("--type", "Placed", "--subject", "/orders/1", "--id", "e-1", "--data")


@pytest.mark.parametrize("namespace", [None, "shop"])
def test_a_publication_says_how_many_subscriptions_matched(
    pushgrid: Pushgrid, run: Run, namespace: str | None
):
    orders = pushgrid.topic("orders", namespace=namespace)
    where = "filtersConfiguration" if namespace else "filter"
    member = "filters" if namespace else "advancedFilters"
    all_of_them = orders.subscribe("all")
    given: dict[str, Any] = {where: {member: [over(10)]}}
    orders.subscribe("large", **given)
    name = f"{namespace}.orders" if namespace else "orders"

    small, large = (
        run("publish", name, *PUBLISH, data) for data in ('{"total": 3}', '{"total": 30}')
    )

    assert small.out == f"published event e-1 to {name}; 1 event subscription matched\n"
    assert large.out == f"published event e-1 to {name}; 2 event subscriptions matched\n"
    assert (small.err, len(all_of_them.received)) == ("", 2)
    told = [
        json.loads(run("publish", name, *PUBLISH, "1", "--json", *key).out)
        for key in ((), ("--key", orders.key))
    ]
    assert told == [{"ids": ["e-1"], "matched": 1}, {"ids": ["e-1"], "matched": None}]


def test_a_file_s_events_may_have_other_spellings(pushgrid: Pushgrid, run: Run):
    """What is there in any spelling is not added."""
    crm = pushgrid.topic("orders").subscribe("crm")
    given = '{"ID": 48213, "EVENTTYPE": "Placed", "Subject": "/a", "Data": 1, "dataversion": "2"}'

    plain, told = (run("publish", "orders", "-", *more, given=given) for more in ((), ("--json",)))

    assert plain.out == "published event 48213 to orders; 1 event subscription matched\n", plain.err
    assert json.loads(told.out) == {"ids": ["48213"], "matched": 1}
    names = ("id", "eventType", "subject", "data", "dataVersion")
    assert [crm.received[1][each] for each in names] == ["48213", "Placed", "/a", 1, "2"]


ON_ARRAYS = "the event has an array, which needs enableAdvancedFilteringOnArrays"


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (
            {"includedEventTypes": ["Shop.Paid"], "subjectBeginsWith": "/orders/"},
            "event types: 'shop.paid'; the event has 'placed'",
        ),
        ({"subjectBeginsWith": "/x/"}, "subject begins with '/x/'; the event has '/orders/1'"),
        ({"subjectEndsWith": ".x"}, "subject ends with '.x'; the event has '/orders/1'"),
        (
            {"advancedFilters": [over(1), over(10)]},
            "data.total NumberGreaterThan 10; the event has 3",
        ),
        (
            {"advancedFilters": [{**over(10), "key": "data.price"}]},
            "data.price NumberGreaterThan 10; the event has no data.price",
        ),
        (
            {"advancedFilters": [{**over(1), "key": "data.n"}]},
            "data.n NumberGreaterThan 1; " + ON_ARRAYS,
        ),
    ],
)
def test_where_nothing_matches_the_failed_condition_is_named(
    pushgrid: Pushgrid, run: Run, wanted: dict[str, Any], why: str
):
    pushgrid.topic("orders").subscribe("crm", filter=wanted)

    found = run("publish", "orders", *PUBLISH, '{"total": 3, "n": [1, 2]}')

    assert (found.code, found.out) == (
        0,
        "published event e-1 to orders; 0 event subscriptions matched\n",
    )
    assert found.err == f"warning: no event subscription matched; crm: {why}\n"


def test_data_that_is_text_is_said_to_be_no_object(pushgrid: Pushgrid, run: Run):
    pushgrid.topic("orders").subscribe("crm", filter={"advancedFilters": [over(1)]})
    event = {
        "id": "1",
        "subject": "/",
        "eventType": "T",
        "data": '{"total": 3}',
        "dataVersion": "1",
    }

    asked = run("explain", "--topic", "orders", "--event", "-", given=json.dumps(event))

    assert asked.out == (
        "crm: no match: data.total NumberGreaterThan 1; data is text, not an object; it seems to "
        "be JSON in a string: publish the object itself\n"
    )


def test_each_subscription_has_its_reason_and_the_closest_comes_first(pushgrid: Pushgrid, run: Run):
    orders = pushgrid.topic("orders")
    nobody = run("publish", "orders", *PUBLISH, "1")
    orders.subscribe("paid", filter={"includedEventTypes": ["Paid"]})
    orders.subscribe("near", filter={"includedEventTypes": ["Placed"], "subjectEndsWith": ".x"})
    orders.subscribe("over", expirationTimeUtc="2026-02-09T12:01:00Z")
    pushgrid.advance(minutes=2)

    several = run("publish", "orders", *PUBLISH, "1")

    none = "warning: no event subscription matched"
    assert nobody.err == f"{none}; orders: it has no event subscription\n"
    head, near, *others = several.err.splitlines()
    assert head == none
    assert near.startswith("  near: subject ends with")
    assert {each.split(":")[0] for each in others} == {"  paid", "  over"}
    (found,) = [
        each
        for each in pushgrid.arm("POST", "topics/orders/matches", EVENT)["value"]
        if each["subscription"] == "over"
    ]
    assert (found["matched"], found["why"]) == (0, "it has expired")


def test_of_many_subscriptions_only_the_closest_are_told(pushgrid: Pushgrid, run: Run):
    orders = pushgrid.topic("orders")
    for number in range(9):
        orders.subscribe(f"none-{number}", filter={"includedEventTypes": ["Paid"]})
    orders.subscribe("near", filter={"includedEventTypes": ["Placed"], "subjectEndsWith": ".x"})

    _, near, *_, more = run("publish", "orders", *PUBLISH, "1").err.splitlines()

    assert near.startswith("  near: ")
    assert more == "  and 5 more: 'pushgrid explain --topic orders --event FILE' tells of each"


EVENT = {
    "id": "1",
    "eventType": "Placed",
    "subject": "",
    "data": {},
    "dataVersion": "",
    "eventTime": "2026-02-09T12:00:00Z",
}


def test_a_range_keeps_events_without_the_member(pushgrid: Pushgrid, run: Run):
    """The filter of the runbook; a comparison excludes them."""
    orders = pushgrid.topic("orders")
    kept = orders.subscribe("crm")
    update = ("subscription", "update", "crm", "-t", "orders", "--filter")
    events = ('{"total": 5}', '{"total": 1000}', "{}")
    for expression in ("data.total not in 1000..1e300", "data.total < 1000"):
        run(*update, expression)
        for data in events:
            run("publish", "orders", "--type", "Placed", "--data", data)

    assert [each["data"] for each in kept.received] == [{"total": 5}, {}, {"total": 5}]


def test_explain_says_which_condition_refuses_an_event(
    pushgrid: Pushgrid, run: Run, tmp_path: Path
):
    orders = pushgrid.topic("orders")
    all_of_them = orders.subscribe("all")
    run("subscription", "update", "all", "-t", "orders", "--max-rate", "20/s")
    orders.subscribe("large", filter={"advancedFilters": [over(10)]})
    file = tmp_path / "event.json"
    file.write_text('{"type": "Placed", "data": {"total": 3}}')
    asked = ("explain", "--topic", "orders", "--event", str(file))

    told, large, unknown = run(*asked), run(*asked, "-s", "large"), run(*asked, "-s", "small")

    limits = "at most 20 a second; no process has sent to it yet"
    why = "large: no match: data.total NumberGreaterThan 10; the event has 3"
    assert (told.code, told.out) == (0, f"all: matches; it gets {limits}\n{why}\n")
    assert (large.code, large.out) == (1, f"{why}\n")
    assert "has no event subscription 'small'; it has all, large" in unknown.err
    assert not all_of_them.received
    assert run("explain", "--event", str(file)).code == 2

    orders.subscribe("blank", filter={"includedEventTypes": ["Placed "]})
    blank = run(*asked, "-s", "blank").out.splitlines()
    assert blank[0] == "blank: no match: event types: 'placed '; the event has 'placed'"
    assert blank[1].startswith("    warning: includedEventTypes has 'Placed ', with a blank")
    assert blank[1].endswith("write 'Placed'.")

    totals = [30] + [3] * 5000  # more than a request may have
    file.write_text("\n".join(f'{{"type": "a", "data": {{"total": {each}}}}}' for each in totals))
    assert json.loads(run(*asked, "-s", "large", "--json").out)[0]["matched"] == 1
