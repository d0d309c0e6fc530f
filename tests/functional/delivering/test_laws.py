"""Every event ends, and in exactly one state: in simulated time, with crashes and faults."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from pushgrid.testing.memory import START, FakeClock, ScriptedPusher, StoredMessage, answered
from shared.delivery.messages.message import MessagePart
from shared.delivery.profiles import PROFILES
from shared.engine.keeping.deployment_terms import DeploymentTerms
from shared.engine.ports import Queue
from shared.errors import StorageUnavailable
from shared.http import Answered, Exchange, Failure, LateAnswerHandler, NotAnswered, OutboundRequest
from shared.subscriptions.subscription import Batching, EventSubscription, RetryPolicy
from tests.builders import DEAD, URL, a_delivery, a_message, a_subscription
from tests.functional.deployment import Deployment

MAX_STEPS = 50_000  # a day of holds, checked every five minutes, is far below it
AGAIN_IN = timedelta(minutes=1)  # what the host waits before it repeats what has failed
WORKED_OFF = (Queue.DELIVERIES, Queue.RETRIES, Queue.WAITING, Queue.DEADLETTERS)


class Endpoint(ScriptedPusher):
    """Keeps what it has got and when, and takes its time."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.got: list[tuple[str, datetime, int | None]] = []  # id, when, and the answer

    async def send(
        self, request: OutboundRequest, timeout: timedelta, late: LateAnswerHandler | None = None
    ) -> Exchange:
        now, exchange = self._clock.now(), await super().send(request, timeout, late)
        status = exchange.status if isinstance(exchange, Answered) else None
        self.got += [(event["id"], now, status) for event in json.loads(request.body)]
        await asyncio.sleep(exchange.seconds)
        return exchange


class _Drops(logging.Handler):
    """Hears which events were dropped."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.ids: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        line = json.loads(record.getMessage())
        if line["event"] == "delivery.dropped":
            self.ids.update(line.get("event_ids", ()))


class Simulation:
    """One subscription under any profile; *crashes* are the steps whose message comes again."""

    def __init__(
        self,
        *,
        answers: Sequence[Exchange] = (answered(200),),
        crashes: Iterable[int] = (),
        **choices: Any,
    ) -> None:
        self.app = Deployment()
        self.endpoint = Endpoint(self.app.clock)
        self.endpoint.script(URL, *answers)
        self.app.set_terms(**choices)
        self.app.push_with(self.endpoint)
        self.terms: DeploymentTerms = self.app.deliver.judge.terms
        self._crashes = set(crashes)
        self.steps = 0
        self.delivered: Counter[str] = Counter()
        self.dead_lettered: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()

    def subscribe(self, subscription: EventSubscription | None = None) -> None:
        self.app.directory.add(subscription or a_subscription())

    def put(self, *messages: MessagePart) -> None:
        """Publish: a message each."""
        self.app.put(Queue.DELIVERIES, *messages)

    def run(self, *messages: MessagePart) -> None:
        """Work everything off, and count the ends of the events."""
        self.put(*messages)
        with self._hearing() as drops:
            while following := self._next():
                self.steps += 1
                assert self.steps < MAX_STEPS, "the simulation has no end"
                self._work(*following)
        codes = PROFILES[self.terms.default_profile].success_codes
        self.delivered.update(id_ for id_, _, status in self.endpoint.got if status in codes)
        self.dropped = drops.ids
        for body in self.app.dead_letters.blobs.values():
            self.dead_lettered.update(record["id"] for record in json.loads(body))

    def _next(self) -> tuple[Queue, StoredMessage] | None:
        """Let the time pass until a message is visible; return it."""
        following = self.app.queues.earliest(*WORKED_OFF)
        if following:
            now = self.app.clock.now()
            self.app.clock.advance(max(following[1].visible_at - now, timedelta()))
        return following

    def _work(self, queue: Queue, message: StoredMessage) -> None:
        if queue is Queue.WAITING:
            self.app.wake.run(self.app.in_a_minute())
            return
        if queue is Queue.DEADLETTERS:
            self.app.write_dead_letters.run(self.app.in_a_minute())
            return
        message.visible_at = self.app.clock.now() + AGAIN_IN
        try:
            self.app.work(message.text)
        except StorageUnavailable:
            return  # The host repeats it.
        if self.steps in self._crashes:
            return  # Everything is done, but the message was not deleted.
        self.app.queues.stored[queue].remove(message)

    @contextmanager
    def _hearing(self) -> Iterator[_Drops]:
        drops, logger = _Drops(), logging.getLogger("pushgrid")
        logger.addHandler(drops)
        try:
            yield drops
        finally:
            logger.removeHandler(drops)


failures = st.sampled_from([each for each in Failure if each is not Failure.SHORTAGE])
exchanges = st.one_of(
    st.sampled_from([200, 204, 302, 400, 401, 404, 408, 413, 429, 500, 503]).map(answered),
    st.just(answered(503, headers={"retry-after": "77"})),
    st.builds(
        NotAnswered,
        failures,
        st.just(""),
        st.sampled_from([0.0, 30.0]),
    ),
)


@st.composite
def subscriptions(draw: st.DrawFn) -> EventSubscription:
    """Draw any wishes a subscription may have; the profile ignores what it hasn't."""
    return a_subscription(
        dead_letter=draw(st.sampled_from([None, DEAD])),
        retry_policy=RetryPolicy(
            max_delivery_attempts=draw(st.none() | st.integers(1, 30)),
            event_time_to_live_minutes=draw(st.none() | st.integers(1, 1440)),
        ),
        batching=Batching(max_events=draw(st.integers(1, 4))),
    )


choices = st.fixed_dictionaries(
    {
        "default_profile": st.sampled_from(sorted(PROFILES)),
        "time_scale": st.sampled_from([1, 20, 3600]),
        "honor_retry_after": st.booleans(),
        "probation_counts_attempt": st.booleans(),
        "probation_ends_events": st.booleans(),
    }
)
scripts = st.lists(exchanges, min_size=1, max_size=25)


def events(count: int) -> list[str]:
    return [f"e-{number}" for number in range(count)]


def ends(simulation: Simulation, event: str) -> list[int]:
    """Say how often an event was delivered, dead-lettered and dropped."""
    states = (simulation.delivered, simulation.dead_lettered, simulation.dropped)
    return [state[event] for state in states]


@given(subscriptions(), scripts, choices, st.integers(1, 12), st.booleans())
@example(  # what is decided is stored twice within the message: after a slow answer, and at its end
    a_subscription(dead_letter=DEAD),
    [answered(400), NotAnswered(Failure.TIMED_OUT, "", 30.0), answered(500), answered(200)],
    {"default_profile": "2020"},
    4,
    False,
)
def test_every_event_ends_in_exactly_one_state(
    subscription: EventSubscription,
    script: Sequence[Exchange],
    choices: dict[str, Any],
    count: int,
    missing: bool,  # noqa: FBT001 - drawn
) -> None:
    simulation = Simulation(answers=script, **choices)
    simulation.subscribe(subscription)
    if missing:
        simulation.app.dead_letters.missing.add(DEAD.container)

    simulation.run(a_message([a_delivery(number) for number in range(count)]))

    assert [sum(ends(simulation, event)) for event in events(count)] == [1] * count
    assert simulation.app.all_stored() == {}


@given(subscriptions(), scripts, choices, st.integers(1, 6))
def test_no_event_is_pushed_too_often_or_too_late(
    subscription: EventSubscription,
    script: Sequence[Exchange],
    choices: dict[str, Any],
    count: int,
) -> None:
    """However messages are grouped, held, split and merged on their way."""
    simulation = Simulation(answers=script, **choices)
    simulation.subscribe(subscription)
    terms = simulation.terms.of(subscription)

    simulation.run(a_message([a_delivery(number) for number in range(count)]))

    # A group is judged when its message begins: pushes before may take their time.
    taken = timedelta(seconds=sum(each.seconds for each in script[:count])) + timedelta(minutes=6)
    for event in events(count):
        times = [at - START for id_, at, _ in simulation.endpoint.got if id_ == event]
        assert terms.max_attempts is None or len(times) <= terms.max_attempts
        assert all(at - taken < terms.scaled(terms.time_to_live) for at in times)


@given(
    subscriptions(),
    scripts,
    choices,
    st.integers(1, 6),
    st.sets(st.integers(1, 20), min_size=1, max_size=4),
)
def test_a_crash_may_repeat_but_never_lose(
    subscription: EventSubscription,
    script: Sequence[Exchange],
    choices: dict[str, Any],
    count: int,
    crashes: set[int],
) -> None:
    """Killed after everything was stored and before the message was deleted: it comes again."""
    simulation = Simulation(answers=script, crashes=crashes, **choices)
    simulation.subscribe(subscription)

    simulation.run(a_message([a_delivery(number) for number in range(count)]))

    assert all(sum(ends(simulation, event)) >= 1 for event in events(count))
    assert simulation.app.all_stored() == {}


@given(
    subscriptions(),
    scripts,
    st.integers(1, 6),
    st.integers(0, 8),
    st.sampled_from(["put", "read_uncached", "subscription", "write", "log"]),
)
def test_storage_that_fails_for_a_while_loses_and_repeats_nothing(
    subscription: EventSubscription,
    script: Sequence[Exchange],
    count: int,
    times: int,
    what: str,
) -> None:
    """Before anything is done: no answer of storage is lost on its way back."""
    simulation = Simulation(answers=script)
    simulation.subscribe(subscription)
    app = simulation.app
    stores = {
        "put": app.queues,
        "read_uncached": app.directory,
        "subscription": app.directory,
        "write": app.dead_letters,
        "log": app.attempts,
    }
    message = a_message([a_delivery(number) for number in range(count)])
    simulation.put(message)
    stores[what].fail_next("write" if what == "log" else what, times)

    simulation.run()

    assert [sum(ends(simulation, event)) for event in events(count)] == [1] * count
