"""Storage fails now and then: refused loudly or repeated, but nothing accepted is lost."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable

from azure.core.exceptions import HttpResponseError

from devhost.azurite import running_azurite
from devhost.process import running_host
from testbed.arm import Arm
from testbed.host_settings import host_settings
from testbed.storage_proxy import running_storage_proxy
from testbed.subscriber import Subscriber, answers
from tests.e2e.publishing import an_event, ids, post, send

ONE_EVENT = (
    b'[{"id":"%d","subject":"/a","eventType":"T","eventTime":"2026-01-01T00:00:00Z","data":{}}]'
)


def test_publishing_is_refused_while_queues_fail_and_works_again_afterwards(
    subscriber: Callable[..., Subscriber],
):
    receiver = subscriber()
    with (
        running_azurite() as azurite,
        running_storage_proxy(azurite) as proxy,
        running_host(host_settings(proxy.azurite)) as host,
    ):
        arm = Arm(host.url)
        arm.create_topic("orders")
        arm.create_subscription("orders", "crm", receiver.url)
        key = arm.key("orders")

        proxy.fault = lambda service, verb, _: service == "queue" and verb == "POST"
        refused = post(host.url, "orders", key, ONE_EVENT % 1)
        proxy.fault = None
        accepted = post(host.url, "orders", key, ONE_EVENT % 2)
        receiver.wait_for(lambda pushes: "2" in ids(pushes))

    assert refused.status_code == 503
    assert int(refused.headers["Retry-After"]) >= 1
    assert refused.json()["error"]["code"] == "ServiceUnavailable"
    assert accepted.status_code == 200
    assert ids(receiver.pushes) == {"2"}


def test_nothing_is_lost_when_every_other_storage_request_fails(
    subscriber: Callable[..., Subscriber], report: Callable[[str], None]
):
    """
    Every event is retried once, so that every kind of message goes through the bad storage.

    In an edition without holds: where each event fails at first, no probe would succeed.
    """
    chance = random.Random(5)
    receiver = subscriber(answers(503, 200))
    accepted: set[str] = set()
    with (
        running_azurite() as azurite,
        running_storage_proxy(azurite) as proxy,
        running_host(
            host_settings(proxy.azurite, PUSHGRID_TIME_SCALE="30", PUSHGRID_PROFILE="2017"),
            options=("--invisibility", "5"),
        ) as host,
    ):
        arm = Arm(host.url)
        arm.create_topic("orders")
        arm.create_subscription("orders", "crm", receiver.url)
        key = arm.key("orders")
        proxy.fault = lambda *_: chance.random() < 0.5
        for start in range(0, 200, 20):
            events = [an_event(start + i) for i in range(20)]
            with contextlib.suppress(HttpResponseError):  # Refused is not accepted.
                send(host.url, "orders", key, events)
                accepted.update(event.id for event in events)

        def all_taken(_: object) -> bool:
            taken = {
                event["id"]
                for push in receiver.pushes
                if push.headers["aeg-delivery-count"] != "0"
                for event in push.events
            }
            return accepted <= taken

        everything = receiver.wait_for(all_taken)
        proxy.fault = None
    report(
        f"storage fails every other request: {len(accepted)} of 200 accepted, all delivered, "
        f"{len(receiver.pushes)} pushes"
    )

    assert len(accepted) >= 100
    assert everything
