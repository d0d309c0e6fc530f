"""No answer that is open to readers has a word of an event, of an endpoint, or a secret."""

from __future__ import annotations

import json
from collections.abc import Iterator

from pushgrid.testing.composition import ACCOUNT
from pushgrid.testing.deployment import Pushgrid
from pushgrid.testing.driven_app import GROUP
from shared.engine.manage.replays_api import MOST_FOLLOWED
from shared.subscriptions.subscription import DeadLetterDestination
from tests.azure_dead_letters import ADDED, CLOUD_ADDED, CLOUD_EVENT, EVENT, NAMESPACE

SAID = "canary"
PLACED = {
    "id": "e-1",
    "eventType": "Shop.OrderPlaced",
    "subject": f"/{SAID}",
    "dataVersion": SAID,
    "data": {SAID: SAID},
}
CLOUD_PLACED = {
    "specversion": "1.0",
    "id": "e-1",
    "source": f"/{SAID}",
    "type": "shop.placed",
    "subject": SAID,
    SAID: SAID,
    "data": {SAID: SAID},
}
REPLAYS = f"{GROUP}/providers/Microsoft.EventGrid/replays"
TOPIC = f"{GROUP}/providers/Microsoft.EventGrid/topics/orders"
GRID, CLOUD = EVENT | ADDED | {"topic": TOPIC}, CLOUD_EVENT | CLOUD_ADDED | {"source": TOPIC}
ODD = (
    *("oops", "", f'{{"{SAID}": 1}}', f'["{SAID}"]', f'{{"{SAID}": NaN}}', f'"{SAID}'),
    *(json.dumps(GRID | each) for each in ({SAID: 1}, {"id": [SAID]}, {"eventTime": SAID})),
    *(json.dumps(CLOUD | each) for each in ({SAID: 1}, {"dataschema": SAID}, {SAID.upper(): [1]})),
    *(json.dumps(NAMESPACE | {name: {SAID: 1}}) for name in ("event", "customDeliveryProperties")),
)
SECRET = "s3cr3t-w0rd"
HEADER = {"name": "x-key", "type": "Static", "properties": {"value": SECRET, "isSecret": True}}
DESTINATION = {"endpointType": "WebHook", "properties": {"deliveryAttributeMappings": [HEADER]}}


def deploy(pushgrid: Pushgrid) -> str:
    """Let events fail in all ways, and replay them; return the job's id."""
    moved = {"location": f"https://new.example/{SAID}"}
    answers = [(400, {"server": SAID}, SAID.encode()), (503, {}, SAID.encode()), (307, moved, b"")]
    orders, of_shop = pushgrid.topic("orders"), pushgrid.topic("orders", namespace="shop")
    crm = orders.subscribe("crm", answers=answers, destination=DESTINATION)
    of_shop.subscribe("crm", answers=answers)
    for event_id in ("e-1", "e-2"):
        orders.publish(PLACED | {"id": event_id})
        of_shop.publish(CLOUD_PLACED | {"id": event_id})
        pushgrid.advance(minutes=10)
    container = DeadLetterDestination(container=crm.container or "")
    for number, record in enumerate(ODD):
        path = f"CRM/2026/2/9/12/{number}.json"
        pushgrid._app.dead_letters.write(container, path, f"[{record}]".encode())
    pushgrid.advance(minutes=1)
    job = pushgrid.arm("POST", "replays", {"unproven": True})
    pushgrid.advance(minutes=1)
    return str(job["id"])


def answers_to(pushgrid: Pushgrid, key: str, job: str) -> Iterator[tuple[str, int, str]]:
    """Yield the name, status and body of each route that is open to readers."""
    subscription, group = GROUP.split("/")[2::2]
    values = {
        "subscription": subscription,
        "group": group,
        "topic": "orders",
        "name": "crm",
        "namespace": "shop",
        "account": ACCOUNT,
        "replay": job,
        "location": "global",
        "topic_type": "Microsoft.EventGrid.Topics",
        "*scope": GROUP[1:],
        "action": "x",
    }
    paths = [f"/status/{each}" for each in ("health", "metrics", "topics")]
    for route in pushgrid._app.manage.routes:
        if "GET" in route.handlers and route.is_open_to_readers("GET"):
            path = "/".join(values[e[1:-1]] if e.startswith("{") else e for e in route.segments)
            paths.append(f"/{path}")
    for path in paths:
        found = pushgrid._app.http(
            "GET", f"{path}?api-version=2025-02-15", {"Authorization": f"Bearer {key}"}
        )
        yield path, found.status, found.body.decode()


def test_a_reader_sees_no_word_of_an_event(pushgrid: Pushgrid) -> None:
    job = deploy(pushgrid)

    seen = list(answers_to(pushgrid, pushgrid._app.reader_key, job))
    by_operators = list(answers_to(pushgrid, pushgrid._app.admin_key, job))

    assert [path for path, _, body in seen if SAID in body or SECRET in body] == []
    assert {path.rpartition("/")[2] for path, _, body in by_operators if SAID in body} == {
        *("attempts", "failures", "deadLetters", "replays", job)
    }
    assert sum(status == 200 for _, status, _ in seen) > len(seen) / 2


def test_a_reader_sees_no_fault_of_jobs_whose_events_are_not_followed(pushgrid: Pushgrid) -> None:
    """Beyond the latest five of a list, and once the attempts are gone."""
    deploy(pushgrid)
    for _ in range(MOST_FOLLOWED):
        pushgrid.arm("POST", "replays", {"unproven": True})
        pushgrid.advance(minutes=1)
    pushgrid.advance(days=8)

    listed, by_operator = (
        pushgrid._app.http(
            "GET", f"{REPLAYS}?api-version=2025-02-15", {"Authorization": f"Bearer {key}"}
        )
        for key in (pushgrid._app.reader_key, pushgrid._app.admin_key)
    )
    jobs, all_jobs = (json.loads(each.body)["value"] for each in (listed, by_operator))

    assert len(jobs) == MOST_FOLLOWED + 1
    assert [SAID in json.dumps(each) for each in jobs] == [False] * len(jobs)
    assert [SAID in json.dumps(each) for each in all_jobs] == [True] * len(jobs)
