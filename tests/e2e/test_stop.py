"""What becomes of deliveries when the host ends."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import cast

import pytest
from azure.core.exceptions import ResourceExistsError
from azure.data.tables import TableServiceClient
from azure.storage.queue import QueueClient

from devhost.azurite import Azurite
from devhost.process import running_host
from shared.delivery.messages.message import MessagePart
from shared.delivery.messages.message_reader import decode
from shared.delivery.pace import FIRST
from testbed.arm import Arm
from testbed.host_settings import host_settings
from testbed.storage_proxy import Attack, Failure, StorageRequest, running_storage_proxy
from testbed.subscriber import PATIENCE, Push, Subscriber
from tests.e2e.publishing import an_event, ids, send
from tests.e2e.waiting import eventually

EVENTS = 150  # in three messages: the endpoint, which hangs, gets few of the first


def test_what_is_in_line_goes_back_at_once_and_the_next_start_delivers_it(
    own_azurite: Azurite, subscriber: Callable[..., Subscriber]
) -> None:
    """The pushes under way end while the host waits: nothing is lost, and nothing comes twice."""
    may_answer = threading.Event()

    def answer(_: Push) -> int:
        return 200 if may_answer.wait(PATIENCE) else 500

    hook, settings = subscriber(answer), host_settings(own_azurite)
    events = [an_event(number) for number in range(EVENTS)]
    retries = QueueClient.from_connection_string(own_azurite.connection_string, "retries")
    with suppress(ResourceExistsError):  # by the app of another test
        retries.create_queue()
    with retries, running_host(settings) as host:
        arm = Arm(host.url)
        arm.create_topic("stopping")
        arm.create_subscription("stopping", "hook", hook.url)
        send(host.url, "stopping", arm.key("stopping"), events)
        assert hook.wait_for(lambda pushes: len(pushes) == FIRST)

        host.process.send_signal(signal.SIGTERM)

        eventually(lambda: _visible(retries), EVENTS - FIRST)
        assert host.process.poll() is None
        may_answer.set()
        assert host.process.wait(PATIENCE) == 0
    assert len(hook.pushes) == FIRST

    with running_host(settings):
        assert hook.wait_for(lambda pushes: ids(pushes) == {event.id for event in events})
        eventually(lambda: len(hook.pushes), EVENTS)


def test_attempts_that_fail_at_the_stop_are_recorded(
    own_azurite: Azurite, subscriber: Callable[..., Subscriber]
) -> None:
    """Their messages are gone before the rows are written, which takes three tries."""
    may_answer = threading.Event()
    busy = iter([Attack(Failure.BUSY)] * 2)

    def attack(request: StorageRequest) -> Attack | None:
        is_row = (
            request.service == "table" and b"attempts" in request.target.encode() + request.body
        )
        return next(busy, None) if is_row and may_answer.is_set() else None

    def answer(_: Push) -> int:
        return 400 if may_answer.wait(PATIENCE) else 200

    hook = subscriber(answer)
    with (
        running_storage_proxy(own_azurite) as proxy,
        running_host(host_settings(proxy.azurite)) as host,
    ):
        arm = Arm(host.url)
        arm.create_topic("ending")
        arm.create_subscription("ending", "hook", hook.url)
        send(host.url, "ending", arm.key("ending"), [an_event(number) for number in range(FIRST)])
        assert hook.wait_for(lambda pushes: len(pushes) == FIRST)
        proxy.attack = attack

        host.process.send_signal(signal.SIGTERM)
        may_answer.set()
        assert host.process.wait(PATIENCE) == 0

    assert next(busy, None) is None
    with TableServiceClient.from_connection_string(own_azurite.connection_string) as tables:
        (table,) = (each.name for each in tables.list_tables() if each.name.startswith("attempts"))
        rows = tables.get_table_client(table).query_entities("Topic eq 'ending'")
        assert len(list(rows)) == FIRST


@pytest.mark.parametrize("way", ["stopped", "without storage"])
def test_what_a_host_holds_that_ends_as_on_azure_is_delivered_by_the_next(
    own_azurite: Azurite, subscriber: Callable[..., Subscriber], name: str, way: str
) -> None:
    """Nothing goes back: pushes under way are repeated, and what is in line comes later."""
    may_answer = threading.Event()
    hook = subscriber(lambda _: 200 if may_answer.wait(PATIENCE) else 500)
    events = [an_event(number) for number in range(EVENTS)]
    options = ("--ends-as-azure", "--invisibility", "5")
    with running_storage_proxy(own_azurite) as proxy:
        settings = host_settings(proxy.azurite)
        with running_host(settings, options=options) as host:
            arm = Arm(host.url)
            arm.create_topic(name)
            arm.create_subscription(name, "hook", hook.url)
            send(host.url, name, arm.key(name), events)
            assert hook.wait_for(lambda pushes: len(pushes) == FIRST)

            if way == "stopped":
                host.process.send_signal(signal.SIGTERM)
            else:
                proxy.attack = lambda _: Attack(Failure.RESET)
            assert host.process.wait(PATIENCE) == 0
        first = ids(hook.pushes)
        proxy.attack = None
        may_answer.set()

        with running_host(settings):
            assert hook.wait_for(lambda pushes: ids(pushes) == {event.id for event in events})
            assert hook.wait_for(lambda pushes: first <= ids(pushes[len(first) :]))


def _visible(queue: QueueClient) -> int:
    """Return the number of deliveries that could be received now."""
    texts = [each.content for each in queue.peek_messages(max_messages=32)]
    parts = [part for text in texts for part in cast("Sequence[MessagePart]", decode(text))]
    return sum(len(part.deliveries) for part in parts)
