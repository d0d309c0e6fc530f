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
    ],
}
DESTINATION = {"endpointType": "WebHook", "properties": WEBHOOK}
CONSENTING = SubscriberWebhook([200], None, is_asked_to_consent=False)
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


def changed_by(pushgrid: Pushgrid, run: Run, topic: Topic, option: str) -> dict[str, Any]:
    """Update the subscription; return the settings that have other values now."""
    path = f"{topic.path}/eventSubscriptions/crm"
    before = stored(pushgrid, path)
    pushgrid._app.endpoints.connect("https://new.example/", CONSENTING)

    name = f"shop.{topic.name}" if topic.namespace else topic.name
    printed = run("subscription", "update", "crm", "-t", name, *option.split(" "))

    assert (printed.code, printed.err) == (0, "")
    after = stored(pushgrid, path)
    names = before | after
    return {each: after.get(each) for each in names if before.get(each) != after.get(each)}


@pytest.mark.parametrize(("option", "expected"), BOTH + TOPIC_ONLY)
def test_an_update_changes_only_what_is_given(
    pushgrid: Pushgrid, run: Run, option: str, expected: dict[str, Any]
):
    orders = pushgrid.topic("orders")
    orders.subscribe("crm", **OF_TOPIC)

    assert changed_by(pushgrid, run, orders, option) == expected


@pytest.mark.parametrize(("option", "expected"), BOTH + NAMESPACE_ONLY)
def test_an_update_of_a_namespace_topics_subscription_keeps_its_identity_too(
    pushgrid: Pushgrid, run: Run, option: str, expected: dict[str, Any]
):
    invoices = pushgrid.topic("invoices", namespace="shop")
    invoices.subscribe("crm", **OF_NAMESPACE)

    assert changed_by(pushgrid, run, invoices, option) == expected


def test_the_options_of_a_creation_say_what_a_document_says(pushgrid: Pushgrid, run: Run):
    orders = pushgrid.topic("orders")
    path = orders.subscribe("crm", **OF_TOPIC, **DEAD).path
    by_document = stored(pushgrid, path)
    options = (
        f"--endpoint {by_document['.url']} --event-types A,B --subject-begins-with /orders/ "
        "--subject-ends-with .json --case-sensitive --filter data.total>10 --max-attempts 7 "
        "--time-to-live 2h --batch 10 --batch-kilobytes 500 --header X-A=a "
        "--secret-header X-Key=s3cret --header-from X-Id=data.id --dead-letter-container dead "
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


@pytest.mark.parametrize(
    "option", ["--filter", "--event-types", "--dead-letter-container", "--label", "--expires"]
)
def test_only_an_update_removes(run: Run, option: str):
    """Thus an empty variable of a script makes no subscription that gets everything."""
    create = ("subscription", "create", "crm", "-t", "orders", "--endpoint", "https://a.example/")

    refused = run(*create, option, "")

    assert (refused.code, refused.out) == (2, "")
    assert f"{option}: an empty value removes; 'update' takes it." in refused.err


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
    pushgrid._app.endpoints.connect("https://new.example/", CONSENTING)
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
def test_a_missing_container_is_told(pushgrid: Pushgrid, run: Run, action: str):
    pushgrid.topic("orders").subscribe("crm")
    pushgrid._app.dead_letters.missing.add("gone")
    pushgrid._app.endpoints.connect("https://new.example/", CONSENTING)

    given = ("-t", "orders", "--endpoint", "https://new.example/", "--dead-letter-container")
    missing = run("subscription", *action.split(), "crm", *given, "gone")
    there = run("subscription", *action.split(), "crm", *given, "there")

    assert (missing.code, there.code, there.err) == (0, 0, "")
    warning = "warning: there is no container 'gone'; until you create it, "
    assert missing.err == f"{warning}events that are given up are dropped\n"


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
    pushgrid._app.endpoints.connect("https://new.example/", CONSENTING)
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


@pytest.mark.parametrize(
    "options", ["--endpoint https://new.example/", "--batch 10", "--header A=b"]
)
def test_a_queue_has_no_options_of_a_webhook(pushgrid: Pushgrid, run: Run, options: str):
    pushgrid.topic("orders")

    refused = run("subscription", "create", "crm", "-t", "orders", "--queue", "q", *options.split())

    assert refused.code != 0
    assert "--queue: events go into a queue or to a webhook, with its options" in refused.err


@pytest.mark.parametrize(
    ("destination", "options", "kind"),
    [
        ("--queue inbox", "--batch 10", "StorageQueue"),
        ("--queue inbox", "--header A=b", "StorageQueue"),
        ("--endpoint https://new.example/", "--queue-time-to-live 1h", "WebHook"),
    ],
)
def test_an_update_does_not_mix_destinations(
    pushgrid: Pushgrid, run: Run, destination: str, options: str, kind: str
):
    orders = pushgrid.topic("orders")
    pushgrid._app.endpoints.connect("https://new.example/", CONSENTING)
    made = run("subscription", "create", "crm", "-t", "orders", *destination.split())
    before = pushgrid.arm("GET", f"{orders.path}/eventSubscriptions/crm")

    refused = run("subscription", "update", "crm", "-t", "orders", *options.split())

    assert (made.code, refused.code) == (0, 2)
    assert f"its destination is a {kind}, which takes no such option" in refused.err
    assert pushgrid.arm("GET", f"{orders.path}/eventSubscriptions/crm") == before


SECRETS = [f"whsec_{letter * 32}" for letter in "ab"]


def signing(pushgrid: Pushgrid, topic: Topic) -> str | None:
    """Return the secrets that sign the subscription's deliveries."""
    found = stored(pushgrid, f"{topic.path}/eventSubscriptions/crm")
    signature: dict[str, str] = found.get(".webhook-signature", {})
    return signature.get("value")


@pytest.mark.parametrize("namespace", [None, "shop"])
def test_deliveries_are_signed_with_a_secret_that_is_printed_once(
    pushgrid: Pushgrid, run: Run, namespace: str | None
):
    topic = pushgrid.topic("orders", namespace=namespace)
    pushgrid._app.endpoints.connect("https://new.example/", CONSENTING)
    name = f"{namespace}.orders" if namespace else "orders"
    of = ("crm", "-t", name)

    made = run("subscription", "create", *of, "--endpoint", "https://new.example/", "--sign")
    again = run("subscription", "update", *of, "--sign", "--header", "x-a=b")
    secret = signing(pushgrid, topic)
    shown = run("subscription", "show", *of)

    assert secret
    assert made.err == f"signing secret, which is not shown again: {secret}\n"
    assert (made.code, again.code, again.err) == (0, 0, "")
    assert not any(secret in each for each in (made.out, again.out, shown.out))

    rotated = run("subscription", "rotate", *of)
    given = run("subscription", "rotate", *of, "--secret", SECRETS[0], "-o", "json")

    newest, before = str(signing(pushgrid, topic)).split(" ")
    assert (newest, given.document["secret"]) == (SECRETS[0], SECRETS[0])
    assert rotated.out.splitlines()[-1] == f"  secret  {before}"
    ended = run("subscription", "update", *of, "--no-sign")
    assert (ended.code, signing(pushgrid, topic)) == (0, None)


def test_update_signs_what_was_not_signed(pushgrid: Pushgrid, run: Run):
    topic = pushgrid.topic("orders")
    topic.subscribe("crm", **OF_TOPIC)
    update = ("subscription", "update", "crm", "-t", "orders")

    made = run(*update, "--sign", "-o", "json")

    assert made.err == f"signing secret, which is not shown again: {signing(pushgrid, topic)}\n"
    given = run(*update, "--signing-secret", " ".join(SECRETS))
    assert (given.err, signing(pushgrid, topic)) == ("", " ".join(SECRETS))
    run(*update, "--signing-secret", "")
    assert signing(pushgrid, topic) is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("create crm --queue q --queue-account /x --sign", "--sign: messages in a storage queue"),
        ("update crm --no-sign --signing-secret whsec_x", "only one of them can be given"),
        ("update crm --signing-secret whsec_x", "must be a secret, or 2 with a space between"),
        ("update crm --signing-secret Hidden", "is 'Hidden', but no secret is stored"),
        ("rotate crm", "Sign them first: 'pushgrid subscription update NAME --topic TOPIC --sign'"),
        ("rotate crm --secret x", "secret must be a secret"),
        ("rotate nobody", "there is no event subscription"),
    ],
)
def test_a_wrong_secret_is_refused(pushgrid: Pushgrid, run: Run, arguments: str, said: str):
    topic = pushgrid.topic("orders")
    topic.subscribe("crm")

    refused = run("subscription", *arguments.split(" "), "-t", "orders")

    assert refused.code in (1, 2)
    assert said in refused.err
    assert signing(pushgrid, topic) is None


def limits(pushgrid: Pushgrid, topic: Topic) -> list[str | None]:
    """Return the limits of the subscription's requests, at once and a second."""
    found = stored(pushgrid, f"{topic.path}/eventSubscriptions/crm")
    names = "webhook-max-requests", "webhook-max-rate"
    return [found.get(f".{name}", {}).get("value") for name in names]


@pytest.mark.parametrize("namespace", [None, "shop"])
def test_requests_are_limited_until_an_empty_value_ends_it(
    pushgrid: Pushgrid, run: Run, namespace: str | None
):
    topic = pushgrid.topic("orders", namespace=namespace)
    pushgrid._app.endpoints.connect("https://new.example/", CONSENTING)
    name = f"{namespace}.orders" if namespace else "orders"
    of = ("crm", "-t", name)

    made = run(
        *("subscription", "create", *of, "--endpoint", "https://new.example/"),
        *("--max-requests", "10", "--max-rate", "20/s"),
    )
    assert (made.code, limits(pushgrid, topic)) == (0, ["10", "20"])
    shown = run("subscription", "show", *of)
    assert "webhook-max-requests" in shown.out

    run("subscription", "update", *of, "--max-rate", "5")
    assert limits(pushgrid, topic) == ["10", "5"]
    run("subscription", "update", *of, "--max-requests", "", "--max-rate", "")
    assert limits(pushgrid, topic) == [None, None]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("create crm --queue q --queue-account /x --max-rate 5", "a storage queue needs no limit"),
        ("update crm --max-rate 0", "'0' must be a whole number between 1 and 100000"),
        ("update crm --max-rate 5/m", "'5/m' must be a whole number"),
        ("update crm --max-rate /s", "'/s' must be a whole number"),
        ("update crm --max-requests 5/s", "'5/s' must be a whole number"),
        ("update crm --max-requests 100001", "'100001' must be a whole number"),
    ],
)
def test_a_wrong_limit_is_refused(pushgrid: Pushgrid, run: Run, arguments: str, said: str):
    topic = pushgrid.topic("orders")
    topic.subscribe("crm")

    refused = run("subscription", *arguments.split(" "), "-t", "orders")

    assert refused.code in (1, 2)
    assert said in refused.err
    assert limits(pushgrid, topic) == [None, None]
