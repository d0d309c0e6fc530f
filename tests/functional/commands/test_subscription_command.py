"""`pushgrid subscription create` and `update`, on a deployment in memory."""

from __future__ import annotations

from typing import Any

import pytest

from pushgrid.testing import Pushgrid
from pushgrid.testing.driven_app import ACCOUNT_ID
from pushgrid.testing.subscriber import SubscriberWebhook
from pushgrid.testing.topic import Topic
from tests.commands import Run

WEBHOOK = {
    "endpointUrl": "https://crm.example/?code=secret",
    "maxEventsPerBatch": 10,
    "preferredBatchSizeInKilobytes": 500,
    "minimumTlsVersionAllowed": "1.2",
    "deliveryAttributeMappings": [
        {"name": "X-A", "type": "Static", "properties": {"value": "a", "isSecret": False}},
        {"name": "X-Key", "type": "Static", "properties": {"value": "s3cret", "isSecret": True}},
        {"name": "X-Id", "type": "Dynamic", "properties": {"sourceField": "data.id"}},
        {"name": "webhook-max-rate", "type": "Static", "properties": {"value": "20"}},
    ],
}
DESTINATION = {"endpointType": "WebHook", "properties": WEBHOOK}
FILTERS = [{"operatorType": "NumberGreaterThan", "key": "data.total", "value": 10.0}]
IDENTITY = {"type": "SystemAssigned", "userAssignedIdentity": None}
OF_TOPIC: dict[str, Any] = {
    "destination": DESTINATION,
    "filter": {
        "includedEventTypes": ["A", "B"],
        "subjectBeginsWith": "/orders/",
        "subjectEndsWith": ".json",
        "isSubjectCaseSensitive": True,
        "enableAdvancedFilteringOnArrays": True,
        "advancedFilters": FILTERS,
    },
    "retryPolicy": {"maxDeliveryAttempts": 7, "eventTimeToLiveInMinutes": 120},
    "labels": ["one", "two"],
    "expirationTimeUtc": "2030-01-31T00:00:00Z",
}
DEAD: dict[str, Any] = {
    "deadLetterDestination": {
        "endpointType": "StorageBlob",
        "properties": {"resourceId": ACCOUNT_ID, "blobContainerName": "dead"},
    }
}
OF_NAMESPACE: dict[str, Any] = {
    "deliveryConfiguration": {
        "deliveryMode": "Push",
        "push": {
            "maxDeliveryCount": 7,
            "eventTimeToLive": "PT120M",
            "deliveryWithResourceIdentity": {"identity": IDENTITY, "destination": DESTINATION},
        },
    },
    "filtersConfiguration": {"includedEventTypes": ["A", "B"], "filters": FILTERS},
    "expirationTimeUtc": "2030-01-31T00:00:00Z",
}
SECRET = f"whsec_{'a' * 32}"
BOTH = [
    (
        "--endpoint https://new.example/",
        {".url": "https://new.example/", ".endpointBaseUrl": "https://new.example/"},
    ),
    ("--event-types C", {".includedEventTypes": ["C"]}),
    ("--batch 100", {".maxEventsPerBatch": 100}),
    ("--batch-kilobytes 200", {".preferredBatchSizeInKilobytes": 200}),
    ("--header x-a=new", {".X-A": None, ".x-a": {"value": "new", "isSecret": False}}),
    ("--header X-B=b", {".X-B": {"value": "b", "isSecret": False}}),
    ("--header X-A=", {".X-A": None}),
    ("--secret-header X-B=b", {".X-B": {"value": "b", "isSecret": True}}),
    ("--header-from X-Key=data.key", {".X-Key": {"sourceField": "data.key"}}),
    ("--signing-secret " + SECRET, {".webhook-signature": {"value": SECRET, "isSecret": True}}),
    ("--max-requests 10", {".webhook-max-requests": {"value": "10", "isSecret": False}}),
    ("--max-rate 5/s", {".webhook-max-rate": {"value": "5", "isSecret": False}}),
    ("--max-rate ", {".webhook-max-rate": None}),
    ("--dead-letter-container other", {".blobContainerName": "other"}),
    ("--expires 2031-01-31T00:00:00Z", {".expirationTimeUtc": "2031-01-31T00:00:00Z"}),
    ("--event-types ", {".includedEventTypes": None}),
    ("--expires ", {".expirationTimeUtc": None}),
]
TOPIC_ONLY = [
    ("--subject-begins-with /x/", {".subjectBeginsWith": "/x/"}),
    ("--subject-ends-with .xml", {".subjectEndsWith": ".xml"}),
    ("--case-sensitive", {}),
    (
        "--filter data.paid=true",
        {".advancedFilters": [{"operatorType": "BoolEquals", "key": "data.paid", "value": True}]},
    ),
    ("--max-attempts 5", {".maxDeliveryAttempts": 5}),
    ("--time-to-live 3h", {".eventTimeToLiveInMinutes": 180}),
    ("--label three", {".labels": ["three"]}),
    ("--subject-begins-with ", {".subjectBeginsWith": ""}),
    ("--subject-ends-with ", {".subjectEndsWith": ""}),
    ("--no-case-sensitive", {".isSubjectCaseSensitive": None}),
    ("--filter ", {".advancedFilters": None}),
    ("--label ", {".labels": None}),
]
NAMESPACE_ONLY = [
    ("--filter ", {".filters": []}),
    (
        "--filter data.paid=true",
        {".filters": [{"operatorType": "BoolEquals", "key": "data.paid", "value": True}]},
    ),
    ("--max-attempts 5", {".maxDeliveryCount": 5}),
    ("--time-to-live 3h", {".eventTimeToLive": "PT180M"}),
]


@pytest.fixture(autouse=True)
def _new_endpoint(pushgrid: Pushgrid) -> None:
    pushgrid._app.endpoints.connect("https://new.example/", SubscriberWebhook([200]))


def stored(pushgrid: Pushgrid, path: str) -> dict[str, Any]:
    """Return all settings, secrets in clear text: the path of each, its headers by name."""
    properties = pushgrid.arm("GET", path)["properties"]
    headers = pushgrid.arm("POST", f"{path}/getDeliveryAttributes")["value"]
    found = {".url": pushgrid.arm("POST", f"{path}/getFullUrl")["endpointUrl"]}
    found |= {f".{each['name']}": each["properties"] for each in headers}

    def collect(members: dict[str, Any]) -> None:
        for name, value in members.items():
            if isinstance(value, dict):
                collect(value)
            elif name != "deliveryAttributeMappings":
                found[f".{name}"] = value

    collect(properties)
    return found


@pytest.mark.parametrize(
    ("namespace", "option", "expected"),
    [
        *((None, *row) for row in BOTH + TOPIC_ONLY),
        *(("shop", *row) for row in BOTH + NAMESPACE_ONLY),  # which keeps its identity, too
    ],
)
def test_an_update_changes_only_what_is_given(
    pushgrid: Pushgrid, run: Run, namespace: str | None, option: str, expected: dict[str, Any]
):
    topic = pushgrid.topic("orders", namespace=namespace)
    path = topic.subscribe("crm", **(OF_NAMESPACE if namespace else OF_TOPIC)).path
    before = stored(pushgrid, path)
    name = f"{namespace}.orders" if namespace else "orders"

    printed = run("subscription", "update", "crm", "-t", name, *option.split(" "))

    assert (printed.code, printed.err) == (0, "")
    after = stored(pushgrid, path)
    differ = [name for name in before | after if before.get(name) != after.get(name)]
    assert {name: after.get(name) for name in differ} == expected


def test_the_options_of_a_creation_say_what_a_document_says(pushgrid: Pushgrid, run: Run):
    orders = pushgrid.topic("orders")
    path = orders.subscribe("crm", **OF_TOPIC, **DEAD).path
    by_document = stored(pushgrid, path)
    options = (
        f"--endpoint {by_document['.url']} --event-types A,B --subject-begins-with /orders/ "
        "--subject-ends-with .json --case-sensitive --filter data.total>10 --max-attempts 7 "
        "--time-to-live 2h --batch 10 --batch-kilobytes 500 --header X-A=a "
        "--secret-header X-Key=s3cret --header-from X-Id=data.id --max-rate 20 "
        "--dead-letter-container dead "
        "--label one --label two --expires 2030-01-31T00:00:00Z"
    ).split()

    made = run("subscription", "create", "crm", "-t", "orders", "--replace", *options)

    assert made.code == 0, made.err
    without_options = {".minimumTlsVersionAllowed", ".enableAdvancedFilteringOnArrays"}
    assert stored(pushgrid, path) == {
        name: value for name, value in by_document.items() if name not in without_options
    }


@pytest.mark.parametrize("namespace", [None, "shop"])
@pytest.mark.parametrize("identity", [None, IDENTITY])
def test_an_update_removes_dead_letters(
    pushgrid: Pushgrid, run: Run, namespace: str | None, identity: Any
):
    topic = pushgrid.topic("orders", namespace=namespace)
    destination: Any = pushgrid._app.new_container()
    member = "deadLetterDestination"
    if identity:
        destination = {"identity": identity, member: destination}
        member = f"deadLetter{'Destination' if namespace else ''}WithResourceIdentity"
    given: dict[str, Any] = {member: destination}
    if namespace:
        given = {"deliveryConfiguration": {"deliveryMode": "Push", "push": given}}
    topic.subscribe("crm", **given)
    name = f"{namespace}.orders" if namespace else "orders"
    path = f"{topic.path}/eventSubscriptions/crm"
    before = stored(pushgrid, path)

    done = run("subscription", "update", "crm", "-t", name, "--dead-letter-container", "")

    after = stored(pushgrid, path)
    assert (done.code, done.err) == (0, "")
    assert before[".blobContainerName"]
    assert ".blobContainerName" not in after
    assert after[".endpointBaseUrl"] == before[".endpointBaseUrl"]


def test_an_update_stores_no_default_and_shows_what_it_replaces(pushgrid: Pushgrid, run: Run):
    pushgrid.topic("invoices", namespace="shop").subscribe("crm")
    update = ("subscription", "update", "crm", "-t", "shop.invoices")

    sent = run(*update, "--max-attempts", "5", "--show-json").document
    printed = run(*update, "--max-attempts", "5")

    push = {"maxDeliveryCount": 5}
    assert sent == {"properties": {"deliveryConfiguration": {"deliveryMode": "Push", "push": push}}}
    assert printed.out.splitlines() == [
        "updated event subscription crm of shop.invoices",
        "  deliveryConfiguration.push.maxDeliveryCount: 10 → 5",
    ]


def test_a_whole_number_is_shown_as_one(pushgrid: Pushgrid, run: Run):
    pushgrid.topic("orders").subscribe("crm")
    update = ("subscription", "update", "crm", "-t", "orders", "--filter")

    run(*update, "data.total in 1..5")
    (_, line) = run(*update, "data.total > 2.5").out.splitlines()

    assert '"values": [[1, 5]]}] → [{' in line
    assert line.endswith('"value": 2.5}]')


def test_another_of_the_same_name_is_replaced_only_if_asked_for(pushgrid: Pushgrid, run: Run):
    orders = pushgrid.topic("orders")
    orders.subscribe("crm", **OF_TOPIC)
    path = f"{orders.path}/eventSubscriptions/crm"
    before = stored(pushgrid, path)
    create = ("subscription", "create", "CRM", "-t", "orders", "--endpoint", "https://new.example/")

    refused = run(*create)

    assert (refused.code, refused.out) == (1, "")
    assert "there is already an event subscription 'CRM' of 'orders'" in refused.err
    assert "add --replace" in refused.err
    assert stored(pushgrid, path) == before

    replaced = run(*create, "--replace")

    assert (replaced.code, replaced.err) == (0, "")
    head, *lines = replaced.out.splitlines()
    assert head == "replaced event subscription CRM of orders: Succeeded"
    assert '  filter.includedEventTypes: ["A", "B"] → nothing' in lines
    assert "  retryPolicy.maxDeliveryAttempts: 7 → 30" in lines


@pytest.mark.parametrize(
    ("expires", "state"),
    [
        ("2026-02-09T12:01:00Z", "expired at 2026-02-09 12:01:00"),
        ("9020-02-09T12:00:00Z", "Succeeded"),
        (None, "Succeeded"),
    ],
)
def test_the_list_says_what_has_expired(
    pushgrid: Pushgrid, run: Run, expires: str | None, state: str
):
    pushgrid.topic("orders").subscribe("crm", expirationTimeUtc=expires)

    assert state in run("subscription", "list").out


@pytest.mark.parametrize("action", ["create --replace", "update"])
def test_a_missing_container_is_reported(pushgrid: Pushgrid, run: Run, action: str):
    pushgrid.topic("orders").subscribe("crm")
    pushgrid._app.dead_letters.missing.add("gone")

    given = ("-t", "orders", "--endpoint", "https://new.example/", "--dead-letter-container")
    missing = run("subscription", *action.split(), "crm", *given, "gone")
    there = run("subscription", *action.split(), "crm", *given, "there")

    assert (missing.code, there.code, there.err) == (0, 0, "")
    warning = "warning: there is no container 'gone'; until you create it, "
    assert missing.err == f"{warning}events that are given up are dropped\n"


@pytest.mark.parametrize("action", ["create --replace", "update"])
def test_a_filter_that_hardly_matches_is_reported(pushgrid: Pushgrid, run: Run, action: str):
    pushgrid.topic("clouds", inputSchema="CloudEventSchemaV1_0").subscribe("crm")

    given = ("-t", "clouds", "--endpoint", "https://new.example/", "--filter")
    done = run("subscription", *action.split(), "crm", *given, "eventtype = Placed")
    right = run("subscription", *action.split(), "crm", *given, "type = Placed")

    assert (done.code, right.code, right.err) == (0, 0, "")
    (warning,) = done.err.splitlines()
    assert warning.startswith("warning: The key 'eventtype' is an extension in CloudEvents")
    assert warning.endswith("write 'type'.")


def test_a_queue_receives_the_events(pushgrid: Pushgrid, run: Run):
    """Its account is the deployment's own, unless it is named; a webhook's options are left."""
    orders = pushgrid.topic("orders")
    orders.subscribe("crm", destination=DESTINATION)

    for action in ("create --replace", "update"):
        done = run("subscription", *action.split(), "crm", "-t", "orders", "--queue", "inbox")
        assert (done.code, done.err) == (0, "")
        hint = "the queue inbox must exist: 'pushgrid subscription test crm --topic orders' puts"
        assert hint in done.out.splitlines()[-1]
        shown = pushgrid.arm("GET", f"{orders.path}/eventSubscriptions/crm")["properties"]
        assert shown["destination"] == {
            "endpointType": "StorageQueue",
            "properties": {
                "resourceId": ACCOUNT_ID,
                "queueName": "inbox",
                "queueMessageTimeToLiveInSeconds": None,
            },
        }
    listed = run("subscription", "list")
    back = run(
        "subscription", "update", "crm", "-t", "orders", "--endpoint", "https://new.example/"
    )

    assert "queue testing/inbox" in listed.out
    assert (back.code, back.err) == (0, "")


@pytest.mark.parametrize(("given", "seconds"), [("90m", 5400), ("30d", 2592000), ("forever", -1)])
def test_a_queue_keeps_events_as_long_as_its_option_says(
    pushgrid: Pushgrid, run: Run, given: str, seconds: int
):
    """What an update does not name stays: its account, which has another id than its default."""
    orders = pushgrid.topic("orders")
    account = (
        "/subscriptions/1/resourceGroups/x/providers/Microsoft.Storage/storageAccounts/testing"
    )
    crm = ("crm", "-t", "orders", "--queue")

    made = run("subscription", "create", *crm, "inbox", "--queue-account", account)
    kept = run("subscription", "update", "crm", "-t", "orders", "--queue-time-to-live", given)
    moved = run("subscription", "update", *crm, "other")

    assert [(each.code, each.err) for each in (made, kept, moved)] == [(0, "")] * 3
    shown = pushgrid.arm("GET", f"{orders.path}/eventSubscriptions/crm")["properties"]
    assert shown["destination"]["properties"] == {
        "resourceId": account,
        "queueName": "other",
        "queueMessageTimeToLiveInSeconds": seconds,
    }


def signing(pushgrid: Pushgrid, topic: Topic) -> str | None:
    """Return the secrets that sign the subscription's deliveries."""
    found = stored(pushgrid, f"{topic.path}/eventSubscriptions/crm")
    signature: dict[str, str] = found.get(".webhook-signature", {})
    return signature.get("value")


def test_status_names_for_a_day_what_is_no_longer_signed(pushgrid: Pushgrid, run: Run):
    crm = f"{pushgrid.topic('orders').path}/eventSubscriptions/crm"
    of = ("crm", "-t", "orders")
    run("subscription", "create", *of, "--endpoint", "https://new.example/", "--sign")
    webhook = {"endpointType": "WebHook", "properties": {"endpointUrl": "https://new.example/"}}

    pushgrid.arm("PATCH", crm, {"destination": webhook})
    told = run("status")
    pushgrid.advance(hours=25)

    assert "was signed until an update by the admin key" in told.out
    assert "pushgrid subscription update crm --topic orders --sign" in told.out
    assert "signed" not in run("status").out


def test_a_signing_secret_is_printed_once(pushgrid: Pushgrid, run: Run):
    topic = pushgrid.topic("orders")
    of = ("crm", "-t", "orders")
    once = "signing secret, which is not shown again: "

    made = run("subscription", "create", *of, "--endpoint", "https://new.example/", "--sign")
    again = run("subscription", "update", *of, "--sign", "--header", "x-a=b")
    secret = signing(pushgrid, topic)
    shown = run("subscription", "show", *of)

    assert secret
    assert made.err == f"{once}{secret}\n"
    assert (made.code, again.code, again.err) == (0, 0, "")
    assert not any(secret in each for each in (made.out, again.out, shown.out))

    rotated = run("subscription", "rotate", *of)
    given = run("subscription", "rotate", *of, "--secret", SECRET, "-o", "json")

    newest, before = str(signing(pushgrid, topic)).split(" ")
    assert (newest, given.document["secret"]) == (SECRET, SECRET)
    assert rotated.out.splitlines()[-1] == f"  secret  {before}"

    both = run("subscription", "update", *of, "--signing-secret", f"{SECRET} {before}")
    assert (both.err, signing(pushgrid, topic)) == ("", f"{SECRET} {before}")
    for ends in (("--no-sign",), ("--signing-secret", "")):
        assert run("subscription", "update", *of, *ends).code == 0
        assert signing(pushgrid, topic) is None
        begun = run("subscription", "update", *of, "--sign")
        assert begun.err == f"{once}{signing(pushgrid, topic)}\n"
