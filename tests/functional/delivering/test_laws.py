"""Every event ends, and in exactly one state: the use cases on fakes, in simulated time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from pushgrid.testing.memory import START, answered
from shared.delivery.profiles import PROFILES
from shared.http import Exchange, Failure, NotAnswered
from shared.subscriptions.subscription import Batching, EventSubscription, RetryPolicy
from tests.builders import DEAD, a_delivery, a_message, a_subscription
from tests.functional.delivering.simulation import Simulation

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


def test_a_whole_day_of_failures_is_eleven_attempts_and_one_dead_letter() -> None:
    simulation = Simulation(answers=[NotAnswered(Failure.SOCKET, "", 0.0)])
    simulation.subscribe(a_subscription(dead_letter=DEAD))

    simulation.run(a_message())

    assert len(simulation.endpoint.got) == 11
    assert ends(simulation, "e-0") == [0, 1, 0]


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
