"""The command `pushgrid`, as an operator types it, on the running product."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import pytest
import requests

from cli.deployment import Deployment
from cli.home import HOME
from cli.readings import Readings
from devhost.process import RunningHost
from testbed.arm import ADMIN_KEY, Arm
from testbed.subscriber import PATIENCE, Subscriber, answers
from tests.commands import Command, Run
from tests.host.running import until


def test_from_a_topic_to_a_delivery(
    pushgrid: Run, name: str, subscriber: Callable[..., Subscriber]
) -> None:
    there = subscriber()

    made = pushgrid("topic", "create", name)
    subscribed = pushgrid("subscription", "create", "crm", "-t", name, "--endpoint", there.url)
    sent = pushgrid("publish", name, "--type", "Placed", "--data", '{"total": 3}', "--json")

    assert [each.code for each in (made, subscribed, sent)] == [0, 0, 0]
    assert f"/topics/{name}/api/events" in made.out
    assert subscribed.out == f"created event subscription crm of {name}: Succeeded\n"
    assert there.wait_for(bool)
    (push,) = there.pushes
    assert [push.events[0]["id"]] == sent.document
    assert push.events[0]["data"] == {"total": 3}


def test_from_a_namespace_topic_to_a_delivery(
    pushgrid: Run, name: str, subscriber: Callable[..., Subscriber]
) -> None:
    """Its namespace is created with it; events are read from standard input, one a line."""
    there, topic = subscriber(), f"{name}.orders"
    pushgrid("topic", "create", topic)
    options = ("--endpoint", there.url, "--filter", "data.total > 2")
    pushgrid("subscription", "create", "crm", "-t", topic, *options)
    lines = [json.dumps({"type": "a", "data": {"total": total}}) for total in (1, 2, 3)]

    sent = pushgrid("publish", topic, "-", given="\n".join(lines))

    assert sent.out == f"published 3 events to {topic}; 1 event subscription matched\n"
    assert there.wait_for(bool)
    (push,) = there.pushes
    assert push.events[0]["data"] == {"total": 3}


def test_what_the_options_say_is_what_is_stored(
    pushgrid: Run, name: str, subscriber: Callable[..., Subscriber]
) -> None:
    there = subscriber()
    pushgrid("topic", "create", name)
    options = (
        f"--endpoint {there.url} --event-types A,B --event-types C --subject-begins-with /a "
        "--subject-ends-with z --case-sensitive --max-attempts 7 --time-to-live 2h --batch 100 "
        "--batch-kilobytes 128 --header X-One=1 --secret-header X-Two=2 --header-from X-Three=id "
        "--dead-letter-container dead --label l --expires 2099-01-01T00:00:00Z"
    ).split()
    where = ("crm", "-t", name)

    shown = pushgrid("subscription", "create", *where, *options, "--show-json")
    made = pushgrid("subscription", "create", *where, *options, "--json")
    read = pushgrid("subscription", "show", *where)

    assert made.document["properties"] == read.document["properties"]
    stored, sent = read.document["properties"], shown.document["properties"]
    assert stored["retryPolicy"] == {"maxDeliveryAttempts": 7, "eventTimeToLiveInMinutes": 120}
    assert stored["filter"]["includedEventTypes"] == ["A", "B", "C"]
    assert sent["filter"].items() <= stored["filter"].items()
    assert stored["deadLetterDestination"] == sent["deadLetterDestination"]
    webhook = stored["destination"]["properties"]
    assert (webhook["maxEventsPerBatch"], webhook["preferredBatchSizeInKilobytes"]) == (100, 128)
    hidden = [each["properties"].get("value") for each in webhook["deliveryAttributeMappings"]]
    assert hidden == ["1", "Hidden", None]
    assert stored["labels"] == ["l"]
    assert stored["expirationTimeUtc"].startswith("2099-01-01")

    pushgrid("subscription", "update", *where, "--max-attempts", "3")

    changed = pushgrid("subscription", "show", *where).document["properties"]
    assert changed["retryPolicy"]["maxDeliveryAttempts"] == 3
    assert changed["destination"] == stored["destination"]


def test_a_pause_is_shown_everywhere_and_ends_when_it_is_resumed(
    host: RunningHost, pushgrid: Run, name: str, subscriber: Callable[..., Subscriber]
) -> None:
    """What arrives during the pause is the operator's test, which passes it."""
    there, where = subscriber(), ("crm", "-t", name)
    pushgrid("topic", "create", name)
    pushgrid("subscription", "create", *where, "--endpoint", there.url)

    paused = pushgrid("subscription", "pause", *where)
    (event_id,) = pushgrid("publish", name, "--type", "Placed", "--json").document
    assert until(lambda: any(name in line and '"held":1' in line for line in list(host.lines)))
    tested = pushgrid("subscription", "test", *where)
    assert there.wait_for(bool)

    assert paused.code == 0
    assert paused.out.startswith(f"crm of {name}: Paused: its events are stored and wait.")
    note = "by the admin key"
    for shown in (paused.out, pushgrid("subscription", "list", "-t", name).out):
        assert note in shown
    assert note in pushgrid("subscription", "show", *where).err
    status = pushgrid("status")
    _, _, mine = status.out.partition(f"\n{name}/crm is paused since ")
    assert (status.code, note in mine.splitlines()[1]) == (1, True)
    timeline = pushgrid("timeline", "--topic", name, "--subscription", "crm").out
    assert "Paused since " in timeline
    assert tested.code == 0
    assert "200 (Delivered) after " in tested.out
    assert "address: 127.0.0.1" in tested.out
    assert pushgrid("subscription", "pause", *where, "--json").document["changed"] is False
    assert [push.events[0]["eventType"] for push in there.pushes] == ["Pushgrid.TestEvent"]

    resumed = pushgrid("subscription", "resume", *where)

    assert resumed.out.startswith(f"crm of {name}: Resumed: ")
    assert there.wait_for(lambda pushes: len(pushes) > 1)
    assert [push.events[0]["id"] for push in there.pushes[1:]] == [event_id]
    released = pushgrid("subscription", "release", *where)
    assert released.out == f"crm of {name}: Its endpoint was not held.\n"
    assert name not in pushgrid("status").out


def test_a_test_that_fails_says_why(
    pushgrid: Run, name: str, subscriber: Callable[..., Subscriber]
) -> None:
    there, where = subscriber(answers(503)), ("crm", "-t", name)
    pushgrid("topic", "create", name)
    pushgrid("subscription", "create", *where, "--endpoint", there.url)

    refused = pushgrid("subscription", "test", *where)

    assert refused.code == 1
    assert "503 (Busy) after " in refused.out


def test_top_shows_what_fails_and_why(
    host: RunningHost, pushgrid: Run, name: str, subscriber: Callable[..., Subscriber]
) -> None:
    there, where = subscriber(answers(503)), ("crm", "-t", name)
    pushgrid("topic", "create", name)
    pushgrid("subscription", "create", *where, "--endpoint", there.url)
    readings = Readings(Deployment(url=host.url, token=lambda: ADMIN_KEY))
    before = readings.read()
    # More than what other tests' endpoints refuse meanwhile.
    given = "\n".join('{"type": "a", "data": 1}' for _ in range(20))
    events = pushgrid("publish", name, "-", "--json", given=given).document
    assert there.wait_for(bool)
    pushgrid("subscription", "pause", *where)

    def mine() -> list[Any]:
        return [each for each in readings.read().failures if each["topic"] == name]

    failed = until(mine)[-1]
    shown, document = pushgrid("top", "--once"), pushgrid("top", "--once", "--json").document

    assert before.rates is None
    assert failed["eventId"] in events
    assert (failed["number"], failed["outcome"]) == (1, "Busy")
    assert failed["nextAt"] > failed["at"]
    assert failed["why"]
    assert (shown.code, shown.err) == (0, "")
    [trouble] = [each for each in document["troubles"] if each["topic"] == name]
    assert (trouble["kind"], document["status"]) == ("paused", "degraded")
    assert "is degraded" in shown.out.splitlines()[0]


def test_lists_are_tables_or_json(
    pushgrid: Run, name: str, subscriber: Callable[..., Subscriber]
) -> None:
    pushgrid("topic", "create", name, "--input-schema", "CloudEventSchemaV1_0")
    pushgrid("subscription", "create", "crm", "-t", name, "--endpoint", subscriber().url)

    table = pushgrid("topic", "list").out
    listed = pushgrid("topic", "list", "--json").document
    subscriptions = pushgrid("subscription", "list", "-t", name)

    (row,) = [line for line in table.splitlines() if line.startswith(name)]
    assert row.split()[:2] == [name, "CloudEventSchemaV1_0"]
    assert name in {each["name"] for each in listed}
    assert subscriptions.out.splitlines()[2].split()[:2] == [name, "crm"]


def test_the_timeline_tells_each_attempt(
    pushgrid: Run, name: str, subscriber: Callable[..., Subscriber]
) -> None:
    there = subscriber(answers(503, 200))
    where = ("--topic", name, "--subscription", "crm")
    pushgrid("topic", "create", name)
    pushgrid("subscription", "create", "crm", "-t", name, "--endpoint", there.url)
    nothing = pushgrid("timeline", *where)
    (event,) = pushgrid("publish", name, "--type", "Placed", "--json").document
    assert there.wait_for(bool)
    assert until(lambda: pushgrid("timeline", *where).code == 0)

    table = pushgrid("timeline", *where, "--event", event, "--since", "2h")
    document = pushgrid("timeline", *where, "--json").document

    assert nothing.code == 1
    assert "No failed attempt is recorded for subscription 'crm'" in nothing.out
    assert table.out.startswith(f"{event}  Placed  published ")
    assert "503 Busy" in table.out
    assert "minimum for 503" in table.out
    assert [each["eventId"] for each in document["value"]] == [event]


def test_keys_can_be_replaced(pushgrid: Run, name: str) -> None:
    pushgrid("topic", "create", name)

    before = pushgrid("topic", "keys", name, "--json").document
    after = pushgrid("topic", "keys", name, "--regenerate", "key2", "--json").document

    assert after["key1"] == before["key1"]
    assert after["key2"] != before["key2"]


def test_a_namespace_lives_and_ends(pushgrid: Run, name: str) -> None:
    made = pushgrid("namespace", "create", name, "--tag", "team=shop")
    listed = pushgrid("namespace", "list").out
    keys = pushgrid("namespace", "keys", name, "--json").document
    changed = pushgrid("namespace", "update", name, "--tag", "team=crm")
    shown = pushgrid("namespace", "show", name).document
    gone = [pushgrid("namespace", "delete", name, "--yes") for _ in range(2)]

    assert (made.out, changed.code) == (f"created namespace {name}\n", 0)
    assert name in listed
    assert set(keys) == {"key1", "key2"}
    assert shown["tags"] == {"team": "crm"}
    assert [each.code for each in gone] == [0, 1]


def test_a_reader_sees_how_things_are_and_a_second_key_is_as_good(
    pushgrid: Run, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    second = ("--admin-key", "the-second-admin-key-of-tests")
    assert pushgrid("topic", "create", name, *second).code == 0
    shown = [pushgrid(*command.split()).out for command in ("status --json", "topic list --json")]
    monkeypatch.delenv("PUSHGRID_ADMIN_KEY")
    monkeypatch.setenv("PUSHGRID_READER_KEY", "the-reader-s-key-of-tests")

    status = pushgrid("status", "--json")
    topics = pushgrid("topic", "list", "--json")
    top = pushgrid("top", "--once")
    refused = pushgrid("topic", "keys", name)

    assert json.loads(status.out).keys() == json.loads(shown[0]).keys()
    assert topics.out == shown[1]
    assert (top.code, top.err) == (0, "")
    assert refused.code == 1
    assert "The reader's key does not have authorization" in refused.err
    assert pushgrid("topic", "delete", name, "--yes", *second).code == 0


def test_the_status_is_an_exit_code_too(pushgrid: Run) -> None:
    found = pushgrid("status")

    lines = [line.split() for line in found.out.splitlines() if line.strip()]
    # The subscriptions of other tests may be in any trouble.
    is_well = found.out.splitlines()[0].endswith("is healthy")
    assert (found.code, found.err) == (0 if is_well else 1, "")
    assert is_well or "/" in found.out.splitlines()[3]
    assert ["QUEUE", "MESSAGES", "OLDEST", "(S)"] in lines
    assert [line[0] for line in lines if line[0] in {"deliveries", "retries"}] == [
        "deliveries",
        "retries",
    ]
    assert any(line[0] == "TIMER" for line in lines) or "No timer has run yet." in found.out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ("topic show no-such-topic", 1, "404 ResourceNotFound"),
        ("topic create a", 1, "400 InvalidRequest"),
        ("topic delete no-such-topic", 1, "there is no topic 'no-such-topic'"),
        ("subscription delete crm -t no-such-topic", 1, "there is no event subscription 'crm'"),
        ("subscription create crm -t orders", 2, "Missing option '--endpoint'"),
        ("subscription update crm -t orders", 2, "nothing to change"),
        ("subscription create a -t b.c --endpoint x --subject-begins-with y", 2, "use --filter"),
        ("subscription create a -t b --endpoint x --filter data.x", 2, "is not a filter"),
        ("subscription create a -t b --endpoint x --header nothing", 2, "write name=value"),
        ("subscription create a -t b --endpoint x --time-to-live soon", 2, "write 90m, 6h or 2d"),
        (
            "subscription create a -t b --endpoint x --time-to-live 9999999999d",
            2,
            "write 90m, 6h or 2d",
        ),
        ("topic create a.b --profile 2019", 2, "only custom topics have these"),
        ("topic create a.b --tag x=y", 2, "only custom topics have these"),
        ("publish orders", 2, "Give a FILE, or --type"),
        ("publish no-such-topic --type a", 1, "404 ResourceNotFound"),
        ("topic list --key wrong", 1, "PUSHGRID_ADMIN_KEY"),
        ("status --key wrong", 1, "PUSHGRID_ADMIN_KEY"),
        ("topic list --url http://127.0.0.1:1", 2, "Start a local deployment with 'pushgrid dev'"),
        ("timeline -t no-such-topic -s crm", 1, "There is no topic 'no-such-topic'"),
        ("timeline -t a -s b --since yesterday", 2, "'yesterday' is not a time"),
        ("timeline -t a -s b --most 0", 2, "'--most'"),
        ("topic lst", 2, "No such command 'lst'. Did you mean list?"),
    ],
)
def test_what_goes_wrong_is_said_on_standard_error(
    pushgrid: Run, arguments: str, code: int, words: str
) -> None:
    found = pushgrid(*arguments.split())

    assert (found.code, found.out) == (code, "")
    assert words in found.err
    assert found.err.startswith("pushgrid")
    assert "Traceback" not in found.err


def test_a_wrong_key_is_not_taken_for_a_missing_resource(pushgrid: Run, name: str) -> None:
    """Whoever is refused must not hear that there was nothing to delete."""
    pushgrid("topic", "create", name)

    refused = pushgrid("topic", "delete", name, "--yes", "--key", "wrong")
    unmade = pushgrid("topic", "create", f"{name}.orders", "--key", "wrong")

    assert (refused.code, unmade.code) == (1, 1)
    assert refused.err.startswith("pushgrid: 401")
    assert unmade.err.startswith("pushgrid: 401")
    assert pushgrid("topic", "show", name).code == 0


def test_a_resource_that_can_not_be_read_can_be_deleted(
    pushgrid: Run, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row is damaged: GET answers 503, DELETE deletes it."""
    pushgrid("topic", "create", name)
    get = requests.request

    def unreadable(method: str, url: str, **options: Any) -> requests.Response:
        answer = get(method, url, **options)
        if method == "GET":
            answer.status_code = 503
        return answer

    with monkeypatch.context() as patched:
        patched.setattr(requests, "request", unreadable)
        deleted = pushgrid("topic", "delete", name, "--yes")

    assert deleted.out == f"deleted topic {name}\n"
    assert pushgrid("topic", "show", name).code == 1


def test_events_of_an_own_schema_are_published_as_they_are(
    pushgrid: Run, arm: Arm, name: str, subscriber: Callable[..., Subscriber]
) -> None:
    there = subscriber()
    constant = {"id": {"sourceField": "order"}, "eventType": {"defaultValue": "Shop.Placed"}}
    constant |= {member: {"defaultValue": "1"} for member in ("subject", "dataVersion")}
    mapping = {"inputSchemaMappingType": "Json", "properties": constant}
    arm.create_topic(name, inputSchema="CustomEventSchema", inputSchemaMapping=mapping)
    options = ("--endpoint", there.url, "--schema", "CustomInputSchema")
    assert pushgrid("subscription", "create", "crm", "-t", name, *options).code == 0

    sent = pushgrid("publish", name, "-", given='{"order": "7"}')
    described = pushgrid("publish", name, "--type", "Placed")

    assert (sent.out, described.code) == (
        f"published 1 event to {name}; 1 event subscription matched\n",
        2,
    )
    assert there.wait_for(bool)
    assert there.pushes[0].events == [{"order": "7"}]


@pytest.mark.parametrize("name_", ["a/b", "a?b=c", "a#b"])
def test_a_name_stays_one_segment_of_the_path(pushgrid: Run, name_: str) -> None:
    """Otherwise ``namespace delete a/topics/b`` would delete a topic."""
    for command in (("namespace", "show"), ("topic", "show"), ("timeline", "-t", "a", "-s")):
        found = pushgrid(*command, name_)

        assert (found.code, found.out) == (1, "")
        assert found.err.startswith("pushgrid: 40")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("", "there are no events in it"),
        ("[]", "there are no events in it"),
        ("[1]", "objects are wanted"),
        ('{"type": "a"}\n{"type"', "line 2: no JSON"),
    ],
)
def test_a_file_without_events_is_refused(pushgrid: Run, name: str, given: str, words: str) -> None:
    pushgrid("topic", "create", name)

    found = pushgrid("publish", name, "-", given=given)

    assert (found.code, found.out) == (2, "")
    assert words in found.err


def test_a_large_file_takes_several_requests(pushgrid: Run, name: str) -> None:
    pushgrid("topic", "create", name)
    lines = [json.dumps({"type": "a", "data": "x" * 1000}) for _ in range(1500)]

    found = pushgrid("publish", name, "-", given="\n".join(lines))

    said = f"published 1500 events to {name}; 0 event subscriptions matched\n"
    nothing = f"warning: no event subscription matched; {name}: it has no event subscription\n"
    assert (found.out, found.err) == (said, nothing)


def test_a_listener_subscribes_for_as_long_as_it_runs(
    host: RunningHost, pushgrid: Run, name: str
) -> None:
    pushgrid("topic", "create", name)
    options = ("--port", "0", "--topic", name, "--url", host.url, "--admin-key", ADMIN_KEY)
    listener = Command([sys.executable, "-m", "cli", "listen", *options], HOME, os.environ)
    try:
        listener.see("subscribed to", name, "until this command ends")
        pushgrid("publish", name, "--type", "Placed", "--id", "e-1")
        listener.see('"id": "e-1"')
    finally:
        listener.process.send_signal(signal.SIGINT)
        listener.process.wait(PATIENCE)
        listener.end()

    assert pushgrid("subscription", "list", "-t", name, "--json").document == []
