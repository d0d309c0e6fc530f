"""The app as it is composed, on one event loop that nothing keeps waiting."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from multiprocessing import get_context
from typing import Any

import pytest
from blockbuster import BlockingError

from devhost.azurite import Azurite
from shared.engine.ports import Queue, Table
from shared.http import HttpRequest
from shared.wiring.function_app import APP
from testbed.host_settings import host_settings
from testbed.subscriber import Subscriber
from tests.blocking import blocking_calls
from tests.builders import noise
from tests.functional.manage.arm_api import HOST, TOPICS, VERSION, hook
from tests.functional.publish_requests import event, publish_request
from tests.integration.push.on_loop import LOOPS

HIDDEN = timedelta(minutes=5)
PATIENCE = 60  # seconds after which a test that hangs fails
LARGE = noise(90_000)  # an event that does not fit into a message

Work = Callable[[Sequence[str]], Coroutine[Any, Any, list[str]]]


def calls_that_block(azurite: Azurite, loop: str, work: Work, *urls: str) -> list[str]:
    """Run *work* on a loop of this kind in a process that has done nothing yet."""
    settings = host_settings(azurite, PUSHGRID_ATTEMPT_LOG="all")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_in_process, settings, loop, work, urls).result(2 * PATIENCE)


def _in_process(
    settings: Mapping[str, str], loop: str, work: Work, urls: Sequence[str]
) -> list[str]:
    os.environ.update(settings)

    async def run() -> list[str]:
        APP.load()
        async with asyncio.timeout(PATIENCE):
            return await work(urls)

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        return runner.run(run())


def manage(method: str, path: str, document: object = None) -> Any:
    """Call the management API, which runs on threads."""
    request = HttpRequest(
        method=method,
        url=f"{HOST}{path}?{VERSION}",
        headers={"authorization": f"Bearer {os.environ['PUSHGRID_ADMIN_KEY']}"},
        query={"api-version": VERSION.partition("=")[2]},
        body=json.dumps(document).encode() if document else b"",
    )
    answer = APP.manage(request)
    assert answer.status < 300, answer.body
    return json.loads(answer.body)


def created(endpoints: Sequence[str]) -> str:
    """Create the topic ``orders`` with a subscription for each endpoint; return its key."""
    manage("PUT", f"{TOPICS}/orders", {"location": "local"})
    for number, url in enumerate(endpoints):
        manage("PUT", f"{TOPICS}/orders/eventSubscriptions/s-{number}", hook(url))
    return str(manage("POST", f"{TOPICS}/orders/listKeys")["key1"])


async def deliver_some() -> int:
    """Deliver messages of first attempts; return how many these were."""
    received = await asyncio.to_thread(APP.store.queues.receive, Queue.DELIVERIES, HIDDEN)
    await asyncio.gather(*(APP.deliver(each.text.encode(), "deliveries") for each in received))
    for each in received:
        await asyncio.to_thread(APP.store.queues.delete, Queue.DELIVERIES, each)
    return len(received)


async def publish_and_deliver(urls: Sequence[str]) -> list[str]:
    """From a cold start: imports, settings, tables, blobs, queues, attempts, health, failures."""
    key = await asyncio.to_thread(created, urls)
    with blocking_calls() as made:
        for events in (
            [event(0)],
            [event(1)],
            [event(2, data=LARGE)],
            [event(number) for number in range(100, 1300)],
        ):
            answer = await APP.publish(publish_request(*events, aeg_sas_key=key))
            assert answer.status == 200, answer.body
        while await deliver_some():
            pass
    return made


async def read_on_the_loop(_: Sequence[str]) -> list[str]:
    documents = APP.store.documents  # which imports what it needs
    with blocking_calls() as made:
        with pytest.raises(BlockingError):
            documents.list(Table.TOPICS, "topic")
        await asyncio.to_thread(documents.list, Table.TOPICS, "topic")
    return made


@pytest.mark.parametrize("loop", LOOPS)
def test_publishing_and_delivering_never_keep_the_loop_waiting(
    own_azurite: Azurite, subscriber: Callable[..., Subscriber], loop: str
) -> None:
    well, failing = subscriber(), subscriber(lambda _: 503)

    assert calls_that_block(own_azurite, loop, publish_and_deliver, well.url, failing.url) == []

    assert len(well.pushes) == 1203
    assert failing.pushes


def test_a_call_of_the_storage_sdk_on_the_loop_is_found(own_azurite: Azurite) -> None:
    """Otherwise the test above would show nothing."""
    assert len(calls_that_block(own_azurite, "asyncio", read_on_the_loop)) == 1
