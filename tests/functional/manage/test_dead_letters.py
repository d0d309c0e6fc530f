"""GET …/deadLetters: the dead-letter blobs of a subscription, and the records in one."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock
from urllib.parse import quote

import pytest

from shared.deadletter.blob_summary import BlobSummary
from shared.deadletter.paths import dead_letter_path
from shared.deadletter.reader import MAX_BLOB
from shared.engine.operations.dead_letter_blobs import MAX_LISTINGS
from shared.engine.operations.operator_authorization import Operators
from shared.subscriptions.subscription import DeadLetterDestination
from tests.azure_dead_letters import ADDED, EVENT
from tests.functional.manage.arm_api import CRM, KEY, ORDERS, SHOP_CRM, ArmApi, hook, push
from tests.unit.arm.documents import dead_letter

CONTAINER = "dead"
DESTINATION = DeadLetterDestination(container=CONTAINER, account="acct")
BLOBS = f"{CRM}/deadLetters"
NOON = datetime(2026, 2, 9, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
LETTER = EVENT | ADDED


SUMMARY = BlobSummary(ORDERS, {"MaxDeliveryAttemptsExceeded": 1, "TimeToLiveExceeded": 2})
RECORDS = "/records?blob=CRM/2026/2/9/12/0.json"
TOKEN = "2026-02-01T00:00:00Z CRM/2026/2/9/12/0.json"


@pytest.fixture
def crm(orders: ArmApi) -> ArmApi:
    orders.json("PUT", CRM, hook(deadLetterDestination=dead_letter()), status=201)
    return orders


def written(
    api: ArmApi,
    *letters: dict[str, Any],
    at: datetime = NOON,
    name: str = "0",
    topic: str = "orders",
    body: bytes | None = None,
    summary: BlobSummary | None = None,
) -> str:
    """Write a blob of dead letters at a time; return its path."""
    path = dead_letter_path(topic, "crm", at, name)
    content = json.dumps(letters or [LETTER]).encode() if body is None else body
    api.clock.advance(at - api.clock.now())
    assert api.dead_letters.write(DESTINATION, path, content, summary)
    return path


def listed(api: ArmApi, query: str = "", path: str = BLOBS) -> list[str]:
    """Return the paths on all pages."""
    found, target = [], f"{path}?{query}" if query else path
    for _ in range(100):
        page = api.json("GET", target)
        found += [each["blob"] for each in page["value"]]
        target = page["nextLink"]
        if not target:
            return found
    raise AssertionError("the pages have no end")


def test_a_blob_is_listed_with_what_its_summary_tells(crm: ArmApi):
    path = written(crm, summary=SUMMARY._replace(first="Placed /o/7"))

    page = crm.json("GET", BLOBS)

    blob = {
        "blob": path,
        "writtenAt": "2026-02-09T12:00:00.0000000Z",
        "size": len(crm.dead_letters.blobs[CONTAINER, path]),
        "topicId": ORDERS,
        "events": 3,
        "firstEvent": "Placed /o/7",
        "reasons": {"MaxDeliveryAttemptsExceeded": 1, "TimeToLiveExceeded": 2},
        "fault": None,
    }
    assert page == {"container": CONTAINER, "account": "acct", "value": [blob], "nextLink": None}


def test_a_reader_is_shown_no_event_of_a_blob(crm: ArmApi) -> None:
    written(crm, summary=SUMMARY._replace(first="Placed /o/7"))
    crm.reconfigure(operators=Operators(admin_key=KEY, reader_key="reader-key"))

    answer = crm.call("GET", BLOBS, headers={"authorization": "Bearer reader-key"})

    (blob,) = json.loads(answer.body)["value"]
    assert (blob["events"], blob["firstEvent"]) == (3, None)


def test_a_list_reads_no_blob_and_names_those_without_a_summary(crm: ArmApi):
    path = written(crm, body=b"[" + b"{}," * (MAX_BLOB // 3 - 1) + b"{}]")
    large = written(crm, body=b" " * (MAX_BLOB + 1), name="1")
    crm.dead_letters.fail_next("read")

    blobs = {each["blob"]: each for each in crm.json("GET", BLOBS)["value"]}

    unknown: dict[str, Any] = {"topicId": None, "events": None, "reasons": {}}
    assert unknown.items() <= blobs[path].items()
    assert (blobs[path]["fault"], "16 MiB" in blobs[large]["fault"]) == (None, True)


def test_the_newest_is_first_though_names_are_not_padded(crm: ArmApi):
    times = [NOON + hours * HOUR for hours in (-2000, -30, -12, -3, -2, 0, 20, 24 * 30)]
    paths = [written(crm, at=at) for at in times]

    assert listed(crm) == [*reversed(paths)]
    assert listed(crm, "$top=3") == [*reversed(paths)]


def test_blobs_of_an_hour_are_listed_by_the_time_of_writing(crm: ArmApi):
    paths = [written(crm, at=NOON + timedelta(minutes=at), name=f"{9 - at}") for at in range(5)]
    paths.append(written(crm, at=NOON + timedelta(minutes=4), name="9z"))

    assert listed(crm) == [*reversed(paths)]
    assert listed(crm, "$top=1") == [*reversed(paths)]


@pytest.fixture
def listings(crm: ArmApi, monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Count the folders that are listed."""
    listing = Mock(wraps=crm.dead_letters.list)
    monkeypatch.setattr(crm.dead_letters, "list", listing)
    return listing


def test_ten_thousand_blobs_are_read_a_page_at_a_time(crm: ArmApi, listings: Mock) -> None:
    body = json.dumps([LETTER]).encode()
    for number in range(10_000):
        written(crm, at=NOON + number // 60 * HOUR, name=f"{number:05}", body=body)

    first = crm.json("GET", f"{BLOBS}?$top=100")
    second = crm.json("GET", first["nextLink"])

    names = [each["blob"][-10:-5] for page in (first, second) for each in page["value"]]
    assert names == [f"{9999 - number:05}" for number in range(200)]
    # A year, a month, two days and the hours of a page.
    assert listings.call_count < 2 * 12


@pytest.mark.parametrize(
    ("query", "hours"),
    [
        ("since=2026-02-09T11:59:59Z", [13, 12, 11]),  # whole hours
        ("until=2026-02-09T12:00:00Z", [11, 10]),
        ("until=2026-02-09T12:00:01Z", [12, 11, 10]),
        ("since=2026-02-09T13:30%2B02:00&until=2026-02-09T12:00", [11]),
        ("since=2026-03-01", []),
        ("until=0001-01-01T00:00:00Z", []),
    ],
)
def test_a_time_is_chosen(crm: ArmApi, query: str, hours: list[int]):
    paths = {hour: written(crm, at=NOON + (hour - 12) * HOUR) for hour in (10, 11, 12, 13)}

    assert listed(crm, query) == [paths[hour] for hour in hours]
    assert listed(crm, f"{query}&$top=1") == [paths[hour] for hour in hours]


@pytest.mark.parametrize(
    ("prefix", "count"),
    [("CRM/2026/2/9/1", 3), ("CRM/2026/2/9/12/0", 1), ("ERP", 0), ("", 4)],
)
def test_a_prefix_is_chosen(crm: ArmApi, prefix: str, count: int):
    for hour in (9, 11, 12, 13):
        written(crm, at=NOON + (hour - 12) * HOUR)

    assert len(listed(crm, f"prefix={quote(prefix)}")) == count


def test_a_reason_is_chosen_over_all_pages(crm: ArmApi):
    other = BlobSummary(ORDERS, {"MaxDeliveryAttemptsExceeded": 1})
    paths = [
        written(crm, at=NOON + number * HOUR, summary=other if number % 10 else SUMMARY)
        for number in range(30)
    ]

    assert listed(crm, "reason=timetoliveexceeded&$top=4") == [paths[20], paths[10], paths[0]]
    assert crm.json("GET", f"{BLOBS}?reason=TimeToLiveExceeded&$top=4")["value"] == []


def test_a_blob_that_can_t_be_read_is_named_when_it_is_shown(crm: ArmApi):
    bad = written(crm, body=b"oops", name="1")
    large = written(crm, body=b" " * (MAX_BLOB + 1), name="2")

    assert listed(crm, "reason=Unknown") == [large, bad]
    for path, why in ((bad, "not a JSON array"), (large, "16 MiB")):
        error = crm.error("GET", f"{BLOBS}/records?blob={path}", status=400)
        assert path in error["message"]
        assert why in error["message"]


@pytest.mark.parametrize(
    "path",
    [
        *("CRM/notes.json", "CRM/2026/x/1/2/a.json", "CRM/2026/2/9/12/a.txt", "crm/1.json"),
        *("CRM/2026/100/9/12/a.json", "CRM/99999/1/1/1/a.json", "CRM/2026/2/009/1/a.json"),
    ],
)
def test_other_blobs_of_the_container_are_not_listed(crm: ArmApi, path: str) -> None:
    crm.dead_letters.write(DESTINATION, path, b"[]")
    paths = [written(crm, name=name) for name in "ab"]

    assert listed(crm, "$top=1") == [*reversed(paths)]


def shown(api: ArmApi, path: str, query: str = "") -> list[list[str]]:
    """Return the ids of the events in a blob, by page."""
    pages, target = [], f"{BLOBS}/records?blob={quote(path, safe='')}{query}"
    while target:
        page = api.json("GET", target)
        pages.append([each["event"]["id"] for each in page["value"]])
        target = page["nextLink"]
    return pages


def test_records_are_shown_a_page_at_a_time(crm: ArmApi):
    path = written(crm, *(LETTER | {"id": str(number)} for number in range(1203)))

    assert [len(page) for page in shown(crm, path)] == [1000, 203]
    assert [each for page in shown(crm, path, "&$top=500") for each in page] == [
        str(number) for number in range(1203)
    ]


def test_a_page_of_records_has_a_megabyte_or_one_record(crm: ArmApi):
    sizes = {"a": 400_000, "b": 400_000, "c": 400_000, "d": 1_048_400, "e": 1}
    path = written(crm, *(LETTER | {"id": each, "data": "x" * sizes[each]} for each in sizes))

    assert shown(crm, path) == [["a", "b"], ["c"], ["d"], ["e"]]


def test_the_records_of_a_blob(crm: ArmApi):
    path = written(crm, LETTER, {"id": "no letter"})

    found = crm.json("GET", f"{BLOBS}/records?blob={quote(path, safe='')}")

    assert found == {
        "blob": path,
        "value": [
            {
                "form": "EventGridSchema",
                "reason": "MaxDeliveryAttemptsExceeded",
                "attempts": 5,
                "lastOutcome": "TimedOut",
                "lastStatus": 408,
                "publishedAt": "2025-01-02T03:04:06.1234560Z",
                "lastAttemptAt": "2025-01-02T03:11:06.7654320Z",
                "headers": {},
                "event": EVENT,
                "fault": None,
            },
            {"fault": "it has no deadLetterReason"},
        ],
        "nextLink": None,
    }


@pytest.mark.parametrize(
    "path",
    [
        "",
        "CRM/2026/2/9/12/none.json",
        "ERP/2026/2/9/12/0.json",
        "CRM/../ERP/2026/2/9/12/0.json",
        "CRM/2026/2/9/12/\x00.json",
        f"CRM/2026/2/9/12/{'x' * 1024}.json",
        "../poison/x.json",
    ],
)
def test_only_blobs_of_the_subscription_are_shown(
    crm: ArmApi, path: str, monkeypatch: pytest.MonkeyPatch
):
    read = Mock(return_value=None)
    monkeypatch.setattr(crm.dead_letters, "read", read)

    crm.error("GET", f"{BLOBS}/records?blob={quote(path, safe='')}", status=404)

    asked = [each.args[1] for each in read.call_args_list]
    assert asked in ([], ["CRM/2026/2/9/12/none.json"])


def test_a_namespace_topic_s_blobs(shop_orders: ArmApi):
    shop_orders.json("PUT", SHOP_CRM, push(deadLetterDestination=dead_letter()), status=201)
    properties = {"deadletterreason": "Undeliverable due to client error", "deliveryattempts": 1}
    path = written(
        shop_orders, {"deadLetterProperties": properties, "event": {"id": "a"}}, topic="shop.orders"
    )

    assert path.startswith("shop/orders/crm/2026/")
    assert listed(shop_orders, path=f"{SHOP_CRM}/deadLetters") == [path]
    (record,) = shop_orders.json("GET", f"{SHOP_CRM}/deadLetters/records?blob={path}")["value"]
    assert (record["form"], record["event"]) == ("Namespace", {"id": "a"})


def test_what_can_not_be_listed_is_said(crm: ArmApi) -> None:
    crm.dead_letters.away.add("acct")
    crm.error("GET", BLOBS, status=503)
    crm.dead_letters.away.clear()
    crm.dead_letters.missing.add(CONTAINER)
    assert crm.error("GET", BLOBS, status=404)["message"] == (
        "There is no container 'dead' in the storage account 'acct'. Create it: until then its "
        "dead letters are dropped."
    )
    crm.json("PUT", CRM, hook(), status=201)
    message = crm.error("GET", BLOBS, status=404)["message"]
    assert message == "The event subscription 'crm' has no dead-letter destination."


@pytest.mark.parametrize(
    "query",
    [
        *("?since=soon", "?until=later", "?$top=0", "?$top=101", "?$skipToken=x"),
        f"?$skipToken={TOKEN.replace('-01', '-30')}",
        f"?$skipToken={TOKEN.replace('CRM', 'ERP')}",
        "?$skipToken=" + TOKEN.replace("/9/", f"/{'9' * 5000}/"),
        *(f"{RECORDS}&{each}" for each in ("$skipToken=-1", "$skipToken=9999999", "$top=0")),
    ],
)
def test_a_wrong_parameter_is_refused(crm: ArmApi, query: str):
    written(crm)

    crm.error("GET", f"{BLOBS}{query.replace(' ', '%20')}", status=400)


def test_folders_without_dead_letters_cost_a_page_a_bounded_number_of_requests(
    crm: ArmApi, listings: Mock
):
    early, late = written(crm), written(crm, at=NOON + 400 * HOUR)
    for number in range(1, 700):
        junk = dead_letter_path("orders", "crm", NOON + number * HOUR / 2, "0") + ".txt"
        crm.dead_letters.write(DESTINATION, junk, b"")
    for year in range(3000, 3400):
        junk = f"CRM/{year}/x/y/z/0.json"
        crm.dead_letters.write(DESTINATION, junk, b"")

    page = crm.json("GET", BLOBS)

    assert (listings.call_count, page["value"]) == (MAX_LISTINGS, [])
    assert listed(crm) == [late, early]
    assert listings.call_count < 6 * MAX_LISTINGS
