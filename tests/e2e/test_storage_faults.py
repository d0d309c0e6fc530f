"""Storage fails: publishing is refused loudly, and works again when storage does."""

from __future__ import annotations

from collections.abc import Callable

from devhost.azurite import Azurite
from devhost.process import running_host
from testbed.arm import Arm
from testbed.host_settings import host_settings
from testbed.storage_proxy import Attack, Failure, StorageRequest, running_storage_proxy
from testbed.subscriber import Subscriber
from tests.e2e.publishing import ids, post

ONE_EVENT = (
    b'[{"id":"%d","subject":"/a","eventType":"T","eventTime":"2026-01-01T00:00:00Z","data":{}}]'
)


def test_publishing_is_refused_while_queues_fail_and_works_again_afterwards(
    own_azurite: Azurite, subscriber: Callable[..., Subscriber]
):
    def busy(request: StorageRequest) -> Attack | None:
        return Attack(Failure.BUSY) if request.kind == "queue put deliveries" else None

    receiver = subscriber()
    with (
        running_storage_proxy(own_azurite) as proxy,
        running_host(host_settings(proxy.azurite)) as host,
    ):
        arm = Arm(host.url)
        arm.create_topic("orders")
        arm.create_subscription("orders", "crm", receiver.url)
        key = arm.key("orders")

        proxy.attack = busy
        refused = post(host.url, "orders", key, ONE_EVENT % 1)
        proxy.attack = None
        accepted = post(host.url, "orders", key, ONE_EVENT % 2)
        receiver.wait_for(lambda pushes: "2" in ids(pushes))

    assert refused.status_code == 503
    assert int(refused.headers["Retry-After"]) >= 1
    assert refused.json()["error"]["code"] == "ServiceUnavailable"
    assert accepted.status_code == 200
    assert ids(receiver.pushes) == {"2"}
