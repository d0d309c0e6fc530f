"""Rows Q4, Q5, Q11 and Q14: the waits of a queue function, and its end."""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Callable, Iterator
from datetime import datetime

import pytest

from devhost.azurite import Azurite
from testbed.storage_proxy import StorageProxy, StorageRequest, running_storage_proxy
from tests.host.app import App
from tests.host.running import IS_DEVHOST, PATIENCE, Host, running, until
from tests.host.storage import Storage

#: The local host's own option shortens the ten minutes.
_HIDDEN_SECONDS = 2.0 if IS_DEVHOST else 600.0
#: Seconds of `visibilityTimeout`.
_PUT_OFF_SECONDS = 2.0


@pytest.fixture(scope="module")
def proxy(azurite: Azurite) -> Iterator[StorageProxy]:
    with running_storage_proxy(azurite) as running:
        yield running


@pytest.fixture(scope="module")
def queues(storage: Storage) -> dict[str, str]:
    return {name: storage.queue(name.lower()) for name in ("Q04", "Q11")}


@pytest.fixture(scope="module")
def host(
    new_app: Callable[[], App],
    queues: dict[str, str],
    proxy: StorageProxy,
    settings: dict[str, str],
) -> Iterator[Host]:
    app = new_app()
    app.host_json(maxPollingInterval="00:00:01", visibilityTimeout="00:00:02", maxDequeueCount=3)
    app.queue("Q04", queues["Q04"])
    app.queue("Q11", queues["Q11"], connection="Watched")
    with running(app, settings | {"Watched": proxy.azurite.connection_string}) as started:
        yield started


def test_q04_a_failed_message_waits_for_visibility_timeout(host, queues, storage):
    """
    Q4: the delay after each failure.

    Source: Storage.Common Queues/QueueProcessor.cs, ReleaseMessageAsync; docs, host.json settings.
    """
    storage.send(queues["Q04"], "raise")

    calls = host.wait_calls("Q04", 3)

    ends = host.calls("Q04", "end")
    gaps = [after["at"] - end["at"] for end, after in zip(ends, calls[1:], strict=False)]
    assert all(gap >= _PUT_OFF_SECONDS for gap in gaps)
    storage.wait_poison(queues["Q04"])


def test_q05_a_poison_queue_has_none(
    new_app: Callable[[], App], storage: Storage, settings: dict[str, str]
) -> None:
    """
    Q5, second half: a message that fails on `x-poison` stays hidden until its ten minutes end.

    It is never moved, and maxDequeueCount does not apply (extension 5.3.8 and later).
    Source: Storage.Common Queues/QueueProcessor.cs, QueueListenerFactory.cs (2024-10).
    """
    app, queue = new_app(), f"{storage.new_name('q05')}-poison"
    app.host_json(maxDequeueCount=2)
    app.queue("Q05", queue)
    storage.client(queue).create_queue()
    storage.send(queue, "raise")
    with running(app, settings, invisibility=_HIDDEN_SECONDS) as host:
        calls = host.wait_calls("Q05", 3, seconds=PATIENCE + 3 * _HIDDEN_SECONDS)[:3]

    for call, after in itertools.pairwise(calls):
        # Storage tells it in whole seconds, rounded down.
        assert after["at"] >= datetime.fromisoformat(call["time_next_visible"]).timestamp()
    assert [call["dequeue_count"] for call in calls] == [1, 2, 3]
    assert storage.count(f"{queue}-poison") == -1


def test_q11_the_waits_between_idle_polls_grow(host, queues, storage, proxy):
    """
    Q11: after work about 100, 200, 300, 500, 900 ms, then maxPollingInterval, here a second.

    That they grow no further is shown on a driven clock, in `tests/unit/devhost`.

    Source: Storage.Common Timers/RandomizedExponentialBackoffStrategy.cs (2024-10).
    """
    polls: list[float] = []

    def record(request: StorageRequest) -> None:
        if request.kind == f"queue get {queues['Q11']}":
            polls.append(time.monotonic())

    proxy.attack = record
    sent = time.monotonic()
    storage.send(queues["Q11"], "first")
    host.wait_calls("Q11")
    start = len(polls)
    until(lambda: len(polls) >= start + 7)

    # Jitter takes off a fifth at most. The work was after *sent*, and a poll that is recorded late
    # or begins before our look only adds to the sum.
    least = [0.1, 0.1 + 0.08, 0.1 + 0.16, 0.1 + 0.32, 0.1 + 0.64, 1.0]
    assert polls[start + 6] - sent >= sum(least)

    storage.send(queues["Q11"], "second")
    host.wait_calls("Q11", 2)


@pytest.fixture
def stoppable(
    new_app: Callable[[], App], storage: Storage, settings: dict[str, str]
) -> Iterator[tuple[Host, str]]:
    app, queue = new_app(), storage.queue("q14")
    app.queue("Q14", queue)
    with running(app, settings) as started:
        yield started, queue


def test_q14_what_runs_is_finished_and_deleted_at_the_end(stoppable, storage):
    """
    Q14: on SIGINT a running message finishes and is deleted.

    The local host receives nothing new. The real one receives for up to ten seconds more, unless
    FUNCTIONS_ENABLE_DRAIN_ON_APP_STOPPING is set.
    Source: Storage.Common Queues/QueueListener.cs, StopAsync (5.3.4 and later); measured.
    """
    host, queue = stoppable
    gate = host.app.gate()
    storage.send(queue, f"wait {gate}")
    host.wait_calls("Q14")

    host.signal(signal.SIGINT)
    if IS_DEVHOST:
        until(lambda: not host.is_listening())
    else:
        time.sleep(1)
    storage.send(queue, "late")
    if not IS_DEVHOST:
        host.wait_calls("Q14", 2)
    gate.touch()
    host.end()

    started = 1 if IS_DEVHOST else 2
    assert len(host.calls("Q14")) == len(host.calls("Q14", "end")) == started
    assert storage.count(queue) == 2 - started
