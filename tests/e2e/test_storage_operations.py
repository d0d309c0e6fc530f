"""What a delivered event costs in storage requests, counted before Azurite."""

from __future__ import annotations

import random
import string
from collections.abc import Callable

from devhost.azurite import running_azurite
from devhost.process import running_host
from shared.adapters.storage.account import StorageAccount
from testbed.arm import Arm
from testbed.host_settings import host_settings
from testbed.storage_proxy import running_storage_proxy
from testbed.subscriber import Subscriber
from tests.e2e.publishing import an_event, ids, send

MOST = 0.2  # storage requests for one delivered event, polls of the idle host included


def test_three_thousand_deliveries_take_few_storage_requests(
    subscriber: Callable[..., Subscriber], report: Callable[[str], None]
):
    """1,000 events of 1 KB in requests of 100 to three subscriptions."""
    chance = random.Random(3)
    letters = string.ascii_letters + string.digits
    # Texts that hardly compress: what real events cost is less.
    events = [
        an_event(number, filler="".join(chance.choices(letters, k=850))) for number in range(1000)
    ]
    receivers = [subscriber() for _ in range(3)]
    with (
        running_azurite() as azurite,
        running_storage_proxy(azurite) as proxy,
        running_host(host_settings(proxy.azurite)) as host,
    ):
        arm = Arm(host.url)
        arm.create_topic("orders")
        for number, receiver in enumerate(receivers):
            arm.create_subscription("orders", f"crm-{number}", receiver.url)
        key = arm.key("orders")
        before = sum(proxy.requests.values())
        for start in range(0, 1000, 100):
            send(host.url, "orders", key, events[start : start + 100])
        for receiver in receivers:
            assert receiver.wait_for(lambda pushes: len(pushes) >= 1000)
        requests = sum(proxy.requests.values()) - before
        account = StorageAccount({"": azurite.connection_string})
        recorded = account.tables_named("attempts")

    per_event = requests / 3000
    report(f"storage requests per delivered event: {per_event:.3f} ({dict(proxy.requests)})")
    for receiver in receivers:
        assert ids(receiver.pushes) == {event.id for event in events}
        assert len(receiver.pushes) == 1000
    assert per_event <= MOST
    assert recorded == []  # Attempts that succeed are not kept; counts are, in the background.
