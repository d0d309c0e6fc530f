"""Endpoints that answer the handshake late, wrongly, later by a link, or with another origin."""

from __future__ import annotations

import gzip
import json
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import requests
from azure.mgmt.eventgrid import models as m

from devhost.process import RunningHost
from testbed.arm import Arm
from testbed.subscriber import PATIENCE, Consent, Push, Reply, Subscriber, consents
from tests.commands import Run
from tests.e2e.managing import GROUP, webhook
from tests.e2e.publishing import an_event, ids, send

CLOUD = "CloudEventSchemaV1_0"


@pytest.fixture
def topic(arm: Arm) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    arm.create_topic(name)
    return name


def late(asked: Push) -> Reply:
    time.sleep(2)
    return consents(asked)


def says(status: int, body: bytes = b"", **headers: str) -> Consent:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: Reply(status, body, names)


def accepts(asked: Push) -> Reply:
    return consents(asked)._replace(status=202)


def link(subscriber: Subscriber) -> str:
    asked = subscriber.handshakes[-1]
    if asked.body:
        return str(asked.events[0]["data"]["validationUrl"])
    return asked.headers["webhook-request-callback"]


ROWS: list[tuple[str, str, Consent, str]] = [
    ("late", "EventGridSchema", late, "Succeeded"),
    ("wrong", "EventGridSchema", says(200, b'{"validationResponse":"x"}'), "not the validation"),
    ("accepted", "EventGridSchema", accepts, "response code Accepted"),
    ("without-code", "EventGridSchema", says(200, b"hello"), "AwaitingManualAction"),
    ("any-origin", CLOUD, says(200, WebHook_Allowed_Origin="*"), "Succeeded"),
    ("our-origin", CLOUD, consents, "Succeeded"),
    ("another-origin", CLOUD, says(200, WebHook_Allowed_Origin="x.example"), "is neither"),
    ("withheld", CLOUD, says(200), "AwaitingManualAction"),
    ("not-found", CLOUD, says(404, b"cannot find function"), "response code NotFound"),
]


def test_each_handshake_ends_as_documented(
    host: RunningHost, arm: Arm, subscriber: Callable[..., Subscriber], topic: str
):
    endpoints = {name: subscriber(consent=consent) for name, _, consent, _ in ROWS}

    def create(row: tuple[str, str, Consent, str]) -> str:
        name, schema, _, _ = row
        try:
            created = arm.create_subscription(
                topic, name, endpoints[name].url, eventDeliverySchema=schema
            )
        except requests.HTTPError as refused:
            error = refused.response.json()["error"]
            if name == "not-found":
                said = error["details"][-1]["message"]
                assert said == "The endpoint answered: cannot find function"
            return f"{refused.response.status_code} {error['code']}: {error['message']}"
        state = str(created["properties"]["provisioningState"])
        shown = arm.subscription(topic, name)["properties"]["provisioningState"]
        assert shown == state
        return state

    with ThreadPoolExecutor(len(ROWS)) as threads:
        ends = dict(zip(endpoints, threads.map(create, ROWS), strict=True))

    expected = {name: end for name, _, _, end in ROWS}
    assert {name: expected[name] in ends[name] for name in ends} == dict.fromkeys(ends, True)
    refusals = [end for end in ends.values() if end not in expected.values()]
    assert [end[:19] for end in refusals] == ["400 Url validation:"] * 4

    before, after = an_event(1), an_event(2)
    key = arm.key(topic)
    send(host.url, topic, key, [before])
    opened = requests.get(link(endpoints["without-code"]), timeout=60)
    called = requests.post(
        link(endpoints["withheld"]), headers={"WebHook-Allowed-Rate": "600"}, timeout=60
    )
    again = requests.get(link(endpoints["without-code"]), timeout=60)
    send(host.url, topic, key, [after])

    assert (opened.status_code, called.status_code, again.status_code) == (200, 200, 404)
    assert "without-code is validated" in opened.text
    served = {name for name, _, _, end in ROWS if end == "Succeeded"}
    awaited = {name for name, _, _, end in ROWS if end == "AwaitingManualAction"}
    for name in served | awaited:
        state = arm.subscription(topic, name)["properties"]["provisioningState"]
        assert state == "Succeeded"
        events = {before.id, after.id} if name in served else {after.id}
        endpoints[name].wait_for(partial(_have, events))
        assert ids(endpoints[name].pushes) == events
    for name in set(endpoints) - served - awaited:
        assert endpoints[name].pushes == []


def compressed(asked: Push) -> Reply:
    reply = consents(asked)
    return Reply(reply.status, gzip.compress(reply.body), {"Content-Encoding": "gzip"})


def test_the_commands_say_why_there_is_no_consent_and_how_to_ask_again(
    pushgrid: Run, subscriber: Callable[..., Subscriber], topic: str
):
    endpoint = subscriber(consent=compressed)
    named = ("crm", "--topic", topic)

    created = pushgrid("subscription", "create", *named, "--endpoint", endpoint.url)
    shown = pushgrid("subscription", "show", *named)
    status = pushgrid("status")
    endpoint.consent = consents
    updated = pushgrid("subscription", "update", *named, "--endpoint", endpoint.url, "--json")

    why = "The endpoint answered 200 with a compressed body (Content-Encoding), which is not read."
    again = f"'pushgrid subscription update crm --topic {topic} --endpoint URL' asks it again"
    for text in (created.out, shown.err, status.out):
        assert why in text
        assert again in text
    assert (created.code, f"{topic}/crm is awaiting validation" in status.out) == (0, True)
    assert updated.document["properties"]["provisioningState"] == "Succeeded"
    assert f"{topic}/crm" not in pushgrid("status").out


def test_the_official_client_waits_for_the_link(
    client: Any, subscriber: Callable[..., Subscriber], name: str
):
    silent = subscriber(consent=says(200))
    client.topics.begin_create_or_update(GROUP, name, m.Topic(location="x")).result()
    poller = client.topic_event_subscriptions.begin_create_or_update(
        GROUP, name, "crm", m.EventSubscription(destination=webhook(silent))
    )

    time.sleep(1.5)
    assert not poller.done()
    requests.get(link(silent), timeout=60)

    assert poller.result(timeout=PATIENCE).provisioning_state == "Succeeded"


def test_endpoints_hear_of_the_end_and_one_that_hangs_delays_nobody(
    arm: Arm, subscriber: Callable[..., Subscriber], topic: str
):
    endpoint = subscriber()
    created = arm.create_subscription(topic, "crm", endpoint.url)
    let_go = threading.Event()
    hanging = subscriber()
    arm.create_subscription(topic, "hanging", hanging.url)
    hanging.notices = _Hanging(let_go)

    arm.delete_subscription(topic, "crm")
    arm.delete_subscription(topic, "hanging")
    not_answered = list(hanging.notices)
    let_go.set()

    assert not_answered == []
    (notice,) = endpoint.notices
    (event,) = json.loads(notice.body)
    assert notice.headers["aeg-event-type"] == "SubscriptionDeletion"
    assert event["eventType"] == "Microsoft.EventGrid.SubscriptionDeletedEvent"
    assert event["data"] == {"eventSubscriptionId": created["id"]}


def _have(events: set[str], pushes: list[Push]) -> bool:
    return ids(pushes) >= events


class _Hanging(list[Push]):
    """Takes a notice only when it is let go."""

    def __init__(self, let_go: threading.Event) -> None:
        super().__init__()
        self._let_go = let_go

    def append(self, notice: Push) -> None:
        self._let_go.wait(PATIENCE)
        super().append(notice)
