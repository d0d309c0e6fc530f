"""Rows Q4, Q5, Q11 and Q14: what a queue function waits for, and how it is stopped."""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest

from tests.host.app import App
from tests.host.proxy import Door, door_to
from tests.host.running import IS_DEVHOST, Host, running, until
from tests.host.storage import Storage

#: The local host's own switch shortens the ten minutes; another host is waited for.
_HIDDEN_SECONDS = 4.0 if IS_DEVHOST else 600.0


@pytest.fixture(scope="module")
def door(storage: Storage) -> Iterator[Door]:
    with door_to(urlsplit(storage.client("any").url).port or 0) as opened:
        yield opened


@pytest.fixture(scope="module")
def queues(storage: Storage) -> dict[str, str]:
    return {name: storage.queue(name.lower()) for name in ("Q04", "Q11")}


@pytest.fixture(scope="module")
def host(
    new_app: Callable[[], App],
    queues: dict[str, str],
    storage: Storage,
    door: Door,
    settings: dict[str, str],
) -> Iterator[Host]:
    app = new_app()
    app.host_json(maxPollingInterval="00:00:02", visibilityTimeout="00:00:05", maxDequeueCount=3)
    app.queue("Q04", queues["Q04"])
    app.queue("Q11", queues["Q11"], connection="Watched")
    port = urlsplit(storage.client("any").url).port
    watched = storage.connection_string.replace(f":{port}/", f":{door.port}/")
    with running(app, settings | {"Watched": watched}) as started:
        yield started


def test_q04_a_failed_message_waits_for_visibility_timeout(host, queues, storage):
    """
    Q4: the same delay after each failure.

    Source: Storage.Common Queues/QueueProcessor.cs, ReleaseMessageAsync; docs, host.json settings.
    """
    storage.send(queues["Q04"], "raise")

    calls = host.wait_calls("Q04", 3)

    ends = host.calls("Q04", "end")
    gaps = [after["at"] - end["at"] for end, after in zip(ends, calls[1:], strict=False)]
    # As much again as a poll may take; the wait does not grow with the attempts.
    assert all(5.0 <= gap < 5.0 + 2.0 + 2.0 for gap in gaps)
    # The last failure moves it at once: the delay is for what comes back.
    (last,) = host.wait_calls("Q04", 3, moment="end")[2:]
    storage.wait_poison(queues["Q04"])
    assert time.time() - last["at"] < 5.0


def test_q05_a_poison_queue_has_none(
    new_app: Callable[[], App], storage: Storage, settings: dict[str, str]
) -> None:
    """
    Q5, second half: a message that fails on `x-poison` is left alone until its ten minutes end.

    It is never moved, and maxDequeueCount does not stop it (5.3.8 of the extension and later).
    Source: Storage.Common Queues/QueueProcessor.cs, QueueListenerFactory.cs (2024-10).
    """
    app, queue = new_app(), f"{storage.new_name('q05')}-poison"
    app.host_json(maxDequeueCount=2)
    app.queue("Q05", queue)
    storage.client(queue).create_queue()
    storage.send(queue, "raise")
    with running(app, settings, invisibility=_HIDDEN_SECONDS) as host:
        calls = host.wait_calls("Q05", 3, seconds=4 * (_HIDDEN_SECONDS + 5))[:3]

    # Storage counts in whole seconds from the receive, which is before the call.
    gaps = [after["at"] - call["at"] for call, after in itertools.pairwise(calls)]
    assert all(gap >= _HIDDEN_SECONDS - 1 for gap in gaps)
    assert [call["dequeue_count"] for call in calls] == [1, 2, 3]
    assert storage.count(f"{queue}-poison") == -1


def test_q11_idle_polls_grow_rarer_up_to_the_longest_interval(host, queues, storage, door):
    """
    Q11: after work about 100, 200, 300, 500, 900, 1700 ms, then maxPollingInterval.

    Source: Storage.Common Timers/RandomizedExponentialBackoffStrategy.cs (2024-10).
    """
    storage.send(queues["Q11"], "first")
    host.wait_calls("Q11")
    start = len(door.receives)
    until(lambda: len(door.receives) >= start + 9)
    polls = door.receives[start : start + 9]
    gaps = [after - poll for poll, after in itertools.pairwise(polls)]

    # One fifth less than the nominal step is the least that chance allows. One more poll may lie
    # between the work and our look, so a step may be seen one place earlier.
    least = [0.1, 0.1 + 0.08, 0.1 + 0.16, 0.1 + 0.32, 0.1 + 0.64, 0.1 + 1.28, 2.0, 2.0]
    # Each is noted a little late.
    assert all(gap >= at_least - 0.05 for gap, at_least in zip(gaps, least, strict=True)), gaps
    assert gaps[0] < gaps[4] < gaps[6]
    assert max(gaps) < 2.0 + 2.0

    sent = time.time()
    storage.send(queues["Q11"], "second")
    _, second = host.wait_calls("Q11", 2)
    assert second["at"] - sent < 2.5 + 2.0


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
    Q14: on SIGINT a running message finishes and is deleted; nothing new is received.

    Source: Storage.Common Queues/QueueListener.cs, StopAsync (5.3.4 and later); 30 s allowance.
    """
    host, queue = stoppable
    storage.send(queue, "sleep 2.5")
    host.wait_calls("Q14")

    host.signal(signal.SIGINT)
    time.sleep(1)
    storage.send(queue, "too late")
    host.end()

    assert len(host.calls("Q14")) == len(host.calls("Q14", "end")) == 1
    assert [message.content for message in storage.client(queue).peek_messages(max_messages=5)] == [
        "dG9vIGxhdGU="
    ]
