"""Measures the bounds of this machine: POSTs of one process, requests of Azurite."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import requests

from bench.load import Sink
from bench.publisher import event, fillers
from devhost.azurite import Azurite

_THREADS = 16


def raw_post_rate(sink: Sink, count: int = 4000) -> float:
    """Return the POSTs per second of one process with 16 keep-alive threads and the same bodies."""
    bodies = [b"[%b]" % event(text) for text in fillers()]
    local = threading.local()

    def post(number: int) -> None:
        if not hasattr(local, "session"):
            local.session = requests.Session()
        local.session.post(
            f"{sink.url}/raw",
            data=bodies[number % len(bodies)],
            headers={"Content-Type": "application/json"},
            timeout=10,
        )

    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(post, range(_THREADS)))
        began = time.perf_counter()
        list(pool.map(post, range(count)))
        return count / (time.perf_counter() - began)


def azurite_rates(azurite: Azurite, count: int = 400) -> dict[str, float]:
    """Return Azurite's queue requests per second by kind, through the SDK on 4 threads."""
    from azure.storage.queue import QueueClient

    queue = QueueClient.from_connection_string(azurite.connection_string, "floor")
    queue.create_queue()
    text = "x" * 1024
    with ThreadPoolExecutor(4) as pool:
        began = time.perf_counter()
        list(pool.map(lambda _: queue.send_message(text), range(count)))
        put = count / (time.perf_counter() - began)
        began = time.perf_counter()
        messages: list[Any] = []
        receives = 0
        while len(messages) < count:
            messages += list(queue.receive_messages(messages_per_page=32, max_messages=32))
            receives += 1
        get = receives / (time.perf_counter() - began)
        began = time.perf_counter()
        list(pool.map(queue.delete_message, messages))
        delete = count / (time.perf_counter() - began)
    queue.delete_queue()
    return {"put": put, "get of 32": get, "delete": delete}
