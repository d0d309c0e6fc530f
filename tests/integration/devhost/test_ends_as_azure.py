"""`--ends-as-azure`: the two ways in which the real host ends by itself or is ended."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from azure.storage.queue import QueueClient

from devhost.azurite import Azurite
from testbed.storage_proxy import (
    Attack,
    Failure,
    StorageProxy,
    StorageRequest,
    running_storage_proxy,
)
from tests.host.running import until
from tests.integration.devhost.functions import HELLO, HTTP, QUEUE, WORK
from tests.integration.devhost.program import Program

#: Says of each call that an app can have made at its end that it was made.
LAST_WORDS = """
import atexit, logging, sys
def say(): print('the app hears of its end', flush=True)
async def end(): say()
atexit.register(say)
sys.modules['__host__'].at_stop(say)
sys.modules['__host__'].at_end(end)
def main(req): ...
"""
#: Takes 25 s, between the limits of a stop: 10 s as on Azure, otherwise 30.
LONG = """
import time
def main(message):
    print('it begins', flush=True)
    time.sleep(25)
    print('it ends', flush=True)
"""
OPTION = "--ends-as-azure"


@pytest.fixture
def proxy(azurite: Azurite) -> Iterator[StorageProxy]:
    with running_storage_proxy(azurite) as running:
        yield running


@pytest.mark.parametrize(
    ("options", "words", "messages"), [((OPTION,), 0, 1), ((), 3, 0)], ids=["as Azure", "in order"]
)
def test_a_stop_drops_what_is_received_and_tells_the_app_nothing(
    start: Callable[..., Program],
    function: Callable[..., None],
    proxy: StorageProxy,
    queue: QueueClient,
    *,
    options: tuple[str, ...],
    words: int,
    messages: int,
) -> None:
    """Storage has handed the message over, and its answer comes when the host is stopping."""
    function("last", LAST_WORDS, **HTTP)
    function("work", WORK, queueName=queue.queue_name, **QUEUE)

    def at_receive(attack: Attack) -> Callable[[StorageRequest], Attack | None]:
        kind = f"queue get {queue.queue_name}"
        return lambda request: attack if request.kind == kind else None

    proxy.attack = at_receive(Attack(Failure.BUSY))
    host = start(*options, AzureWebJobsStorage=proxy.azurite.connection_string)
    port = urlsplit(host.url).port

    def stop() -> None:
        proxy.attack = None
        host.process.send_signal(signal.SIGTERM)
        until(lambda: not _is_listening(port))

    queue.send_message("one")
    proxy.attack = at_receive(Attack(None, stop))

    assert host.end() == 0
    host.assert_said("the app hears of its end", words)
    host.assert_said("in one", 1 - messages)
    assert queue.get_queue_properties().approximate_message_count == messages
    assert not queue.peek_messages()  # hidden as long as one that is being handled


def _is_listening(port: int | None) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_a_stop_cuts_off_what_takes_longer_than_ten_seconds(
    start: Callable[..., Program],
    function: Callable[..., None],
    azurite: Azurite,
    queue: QueueClient,
) -> None:
    function("work", LONG, queueName=queue.queue_name, **QUEUE)
    host = start(OPTION, AzureWebJobsStorage=azurite.connection_string)
    queue.send_message("one")
    host.wait_for("it begins")

    assert host.stop(signal.SIGTERM) == 0

    host.assert_said("it ends", 0)
    assert queue.get_queue_properties().approximate_message_count == 1


def test_it_ends_without_storage_and_holds_what_it_held(
    start: Callable[..., Program],
    function: Callable[..., None],
    proxy: StorageProxy,
    queue: QueueClient,
    tmp_path: Path,
) -> None:
    """What has been handled meanwhile cannot be deleted."""
    function("last", LAST_WORDS, **HTTP)
    function("good", HELLO, **HTTP)
    function("work", WORK, queueName=queue.queue_name, **QUEUE)
    host = start(OPTION, AzureWebJobsStorage=proxy.azurite.connection_string)
    queue.send_message("slow one")
    host.wait_for("in slow one")

    proxy.attack = lambda _: Attack(Failure.RESET)
    host.wait_for("storage is failing, retrying")
    assert host.get("/good") == (200, b"hello")
    (tmp_path / "gate").touch()

    assert host.end() == 0
    host.assert_said(f"devhost: queue {queue.queue_name}: storage is out of reach for 2", 1)
    host.assert_said("the app hears of its end", 0)
    host.assert_said("out slow one", 1)
    assert queue.get_queue_properties().approximate_message_count == 1
