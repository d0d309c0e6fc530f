"""Waits for what the running system does in its own time, and counts what it has stored."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from azure.storage.queue import QueueServiceClient

from devhost.azurite import Azurite
from testbed.subscriber import PATIENCE

T = TypeVar("T")


def eventually(look: Callable[[], T], expected: T) -> None:
    """Wait until *look* returns what is *expected*; fail with what it returns otherwise."""
    end = time.monotonic() + PATIENCE
    while look() != expected and time.monotonic() < end:
        time.sleep(0.1)
    found = look()
    assert found == expected, found


def messages(azurite: Azurite) -> int:
    """Return the number of messages on all queues, hidden or not."""
    with QueueServiceClient.from_connection_string(azurite.connection_string) as client:
        queues = [client.get_queue_client(each) for each in client.list_queues()]
        return sum(each.get_queue_properties().approximate_message_count or 0 for each in queues)
