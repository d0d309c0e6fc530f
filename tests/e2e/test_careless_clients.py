"""Clients that stream, join URLs carelessly or miss the path: they are served, or told why not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
import requests
from azure.core.credentials import AzureSasCredential
from azure.eventgrid import EventGridPublisherClient, generate_sas

from bench.load import log_lines
from devhost.process import RunningHost
from testbed.arm import ADMIN_KEY, Arm
from testbed.subscriber import Subscriber
from tests.e2e.publishing import ONE_EVENT, an_event, endpoint, ids
from tests.host.running import until

SUBSCRIPTION = "subscriptions/00000000-0000-0000-0000-000000000000"
GROUP = f"{SUBSCRIPTION}/resourceGroups/local/providers/Microsoft.EventGrid"
OPERATOR = {"Authorization": f"Bearer {ADMIN_KEY}", "Content-Type": "application/json"}


def in_parts(body: bytes) -> Iterator[bytes]:
    """Have a client send *body* in chunks."""
    yield from (body[:7], body[7:])


def test_what_is_sent_in_chunks_arrives(
    host: RunningHost, arm: Arm, subscriber: Callable[..., Subscriber], name: str
) -> None:
    receiver = subscriber()
    url = f"{host.url}/{GROUP}/topics/{name}?api-version=2025-02-15"

    created = requests.put(url, in_parts(b'{"location": "x"}'), headers=OPERATOR, timeout=60)
    arm.create_subscription(name, "crm", receiver.url)
    key = {"aeg-sas-key": arm.key(name), "Content-Type": "application/json"}
    published = requests.post(
        endpoint(host.url, name), in_parts(ONE_EVENT), headers=key, timeout=60
    )
    receiver.wait_for(lambda pushes: len(pushes) >= 1)

    assert (created.status_code, created.json()["location"]) == (201, "x")
    assert (published.status_code, published.content) == (200, b"")
    assert ids(receiver.pushes) == {"1"}


def test_doubled_slashes_count_as_one(
    host: RunningHost, arm: Arm, subscriber: Callable[..., Subscriber], name: str
) -> None:
    receiver = subscriber()
    arm.create_topic(name)
    arm.create_subscription(name, "crm", receiver.url)
    careless = endpoint(f"{host.url}/", name)
    signature = generate_sas(careless, arm.key(name), datetime.now(UTC) + timedelta(hours=1))

    shown = requests.get(
        f"{host.url}//{GROUP}//topics/{name}?api-version=2025-02-15", headers=OPERATOR, timeout=60
    )
    with EventGridPublisherClient(careless, AzureSasCredential(signature)) as client:
        client.send(event := an_event())
    receiver.wait_for(lambda pushes: len(pushes) >= 1)

    assert shown.json()["name"] == name
    assert ids(receiver.pushes) == {event.id}


@pytest.mark.parametrize(
    ("path", "right"),
    [
        ("/api/events", "/topics/NAME/api/events"),
        ("/topics/orders", "/topics/orders/api/events"),
        ("/namespaces/shop/topics/orders", "/namespaces/shop/topics/orders:publish"),
    ],
)
def test_a_publisher_that_misses_the_path_is_told_it(
    host: RunningHost, path: str, right: str
) -> None:
    answer = requests.post(f"{host.url}{path}?aeg-sas-key=secret", ONE_EVENT, timeout=60)

    assert answer.status_code == 404
    error = answer.json()["error"]
    assert [error["code"], error["details"][0]["code"]] == ["NotFound", "ResourceNotFound"]
    request_id = answer.headers["x-ms-request-id"]
    assert error["message"] == (
        "No HTTP resource was found that matches the request URI "
        f"'{host.url}{path}'. POST events to {right}. Request ID {request_id}."
    )
    assert until(lambda: any(request_id in each for each in list(host.lines)))
    (line,) = [each for each in log_lines(host.lines, "publish.refused") if request_id in str(each)]
    assert right in line["detail"]
    assert "unknown_topic" not in line
    assert "secret" not in str(line)
