"""Invocations on threads of their own, led step by step; nothing waits for time to pass."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from queue import Empty, SimpleQueue
from typing import Any

from pushgrid.testing.memory import ScriptedPusher
from shared.adapters.push_threads import PooledThreads
from shared.delivery.messages.message import DeliveryMessage
from shared.delivery.messages.message_writer import encode
from shared.delivery.slots.shares import Share
from shared.delivery.slots.slots import IN_FLIGHT, Slots
from shared.engine.delivering.gates import Gates
from shared.http import Exchange, LateAnswerHandler, OutboundRequest
from tests.functional.deployment import SECOND, Deployment

PATIENCE = 30  # seconds after which a test that hangs fails; pushes hang for longer


class LedInbox:
    """Inbox that waits until something arrives, or a test says that a second has passed."""

    def __init__(self) -> None:
        self._items: SimpleQueue[Any] = SimpleQueue()
        self._ticks: list[threading.Event] = []
        self._looked: list[threading.Event] = []
        self.put = self._items.put
        self.is_waited_for = threading.Event()

    def wait(self, _: float) -> list[Any]:
        self.is_waited_for.set()
        for event in self._looked:
            event.set()
        found = [] if self._ticks else [self._items.get(timeout=PATIENCE)]
        with suppress(Empty):
            while True:
                found.append(self._items.get_nowait())
        self._ticks += [each for each in found if isinstance(each, threading.Event)]
        arrived = [each for each in found if not isinstance(each, threading.Event)]
        self._looked = []
        if not arrived:
            self._looked, self._ticks = self._ticks, []
        return arrived

    def tick(self) -> None:
        """Let the invocation look after its parts, and wait until it has."""
        looked = threading.Event()
        self._items.put(looked)
        assert looked.wait(PATIENCE)


class LedThreads(PooledThreads):
    """PushThreads with the inbox of each invocation, in the order of their beginnings."""

    def __init__(self) -> None:
        super().__init__(32)
        self.inboxes: SimpleQueue[LedInbox] = SimpleQueue()

    def inbox(self) -> Any:
        inbox = LedInbox()
        self.inboxes.put(inbox)
        return inbox


class HeldPusher:
    """Pusher that holds requests with some text in their URL or body until they are let go."""

    def __init__(self, pusher: ScriptedPusher) -> None:
        self._pusher = pusher
        self._held: dict[str, threading.Event] = {}
        self._begun: SimpleQueue[str] = SimpleQueue()

    def hold(self, *marks: str) -> None:
        for mark in marks:
            self._held[mark] = threading.Event()

    def let_go(self, *marks: str) -> None:
        """Let go what is held, or only the requests with these texts."""
        for mark in marks or self._held:
            self._held[mark].set()

    def begun(self, count: int = 1) -> list[str]:
        """Wait until so many requests are held; return their marks."""
        return sorted(self._begun.get(timeout=PATIENCE) for _ in range(count))

    def send(
        self, request: OutboundRequest, timeout: timedelta, late: LateAnswerHandler | None = None
    ) -> Exchange:
        text = f"{request.url} {request.body.decode()}"
        for mark, event in self._held.items():
            if mark in text and not event.is_set():
                self._begun.put(mark)
                assert event.wait(2 * PATIENCE)
        return self._pusher.send(request, timeout, late)


class Invocation:
    """One run of Deliver; *has_ended* for the host, perhaps before *result* is there."""

    def __init__(self, result: Future[None], has_ended: threading.Event, inbox: LedInbox) -> None:
        self._result = result
        self._has_ended = has_ended
        self.tick = inbox.tick

    @property
    def has_ended(self) -> bool:
        return self._has_ended.is_set()

    def until(self, is_so: Callable[[], bool]) -> None:
        """Let it look after its parts until something is so: threads have done their work."""
        give_up_at = time.monotonic() + PATIENCE
        while not is_so():
            assert time.monotonic() < give_up_at
            self.tick()

    def wait(self) -> None:
        """Wait until it returns; raises what it raises."""
        self._result.result(PATIENCE)


class Led:
    """A deployment whose invocations have threads; *slots* of each endpoint."""

    def __init__(self, app: Deployment, slots: int, in_flight: Share) -> None:
        self.app = app
        self.pusher = HeldPusher(app.pusher)
        self._threads = LedThreads()
        self._callers = ThreadPoolExecutor(64)
        app.threads = self._threads  # type: ignore[assignment]
        app.deliver.gates.slots = Slots(
            app.clock.monotonic, start=slots, most=slots, in_flight=in_flight
        )
        app.deliver.gates.threads = self._threads
        app.push_with(self.pusher)

    @property
    def gates(self) -> Gates:
        return self.app.deliver.gates

    def begin(
        self, message: DeliveryMessage | str, end: Callable[[], None] = lambda: None
    ) -> Invocation:
        """Begin an invocation; returns when its parts are at their gates."""
        text = message if isinstance(message, str) else encode(message)[0]
        ended = threading.Event()

        def end_invocation() -> None:
            end()
            ended.set()

        result = self._callers.submit(self.app.deliver.run, text.encode(), end_invocation)
        inbox = self._threads.inboxes.get(timeout=PATIENCE)
        result.add_done_callback(lambda _: inbox.is_waited_for.set())
        assert inbox.is_waited_for.wait(PATIENCE)
        return Invocation(result, ended, inbox)

    def pass_time(self, seconds: float) -> None:
        self.app.clock.advance(seconds * SECOND)

    def end(self) -> None:
        """Wait for all threads: no slot is in use, and nobody waits or is in flight."""
        self.pusher.let_go()
        self._callers.shutdown()
        self._threads._pool.shutdown()
        slots = self.gates.slots
        assert (slots._used, slots._waiting, slots._active) == (0, {}, {})


@contextmanager
def led(app: Deployment, slots: int = 8, in_flight: Share = IN_FLIGHT) -> Iterator[Led]:
    """Lead the invocations of a deployment; at the end all must be released."""
    leading = Led(app, slots, in_flight)
    try:
        yield leading
    finally:
        leading.pusher.let_go()
    leading.end()
