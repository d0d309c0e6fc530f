"""All Hypothesis strategies of the central rooms."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from pushgrid.testing.memory import START
from shared.delivery.delivery import Delivery, LastAttempt, Origin
from shared.delivery.gate import NeedsProbe, availability
from shared.delivery.health.endpoint_health import Health, Observation, claim_probe, observe
from shared.delivery.messages.message import DeadLetterNote, MessagePart
from shared.delivery.outcome import Outcome
from shared.delivery.policy import EndReason
from shared.events.topic import InputSchema
from shared.subscriptions.subscription import (
    DeadLetterDestination,
    DeliverySchema,
    DynamicHeader,
    StaticHeader,
)
from tests.builders import LONGEST_TRACE, TRACE, compact, noise, terms

# Plain Unicode without lone surrogates, which publishing refuses.
any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | any_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
    max_leaves=8,
)
event_texts = st.builds(
    lambda id_, data: compact({"id": id_, "data": data}), any_text, json_values
) | st.builds(lambda size, seed: compact(noise(size, seed)), st.integers(1, 9000), st.integers())
moments = st.integers(-(10**9), 10**14).map(lambda micros: START + timedelta(microseconds=micros))
names = st.from_regex(r"[A-Za-z0-9-]{3,64}", fullmatch=True)
attempts = st.builds(
    LastAttempt, st.sampled_from(Outcome), st.none() | st.integers(100, 599), at=moments
)
_hex = st.integers(0, 2**128 - 1).map(lambda number: uuid.UUID(int=number).hex)
traces = st.sampled_from([None, None, TRACE, TRACE._replace(state=""), LONGEST_TRACE])
inline_origins = st.builds(Origin, _hex, moments, st.none(), st.just(0), traces)
parked_origins = st.builds(
    Origin,
    _hex,
    moments,
    _hex.map(lambda name: f"2026021312/{name}"),
    st.just(0) | st.integers(0, 10_000),
    traces,
)


@st.composite
def deliveries(draw: st.DrawFn) -> Delivery:
    """Draw one delivery, inline or parked, tried or not."""
    position = draw(st.integers(0, 4999))
    tried = draw(st.none() | attempts)
    count = draw(st.integers(1, 30)) if tried else 0
    if draw(st.booleans()):
        origin, event = draw(inline_origins), draw(event_texts)
    else:
        origin, event = draw(parked_origins), None
    return Delivery(origin=origin, position=position, text=event, attempts=count, last=tried)


@st.composite
def runs(draw: st.DrawFn) -> list[Delivery]:
    """Draw events of one request with like counters, as publishing makes them."""
    first = draw(deliveries())
    count = draw(st.integers(1, 80))
    start = min(first.position, 4999 - count)
    return [
        Delivery(
            origin=first.origin,
            position=start + number,
            text=None if first.text is None else compact(number),
            attempts=first.attempts,
            last=first.last,
        )
        for number in range(count)
    ]


notes = st.builds(
    DeadLetterNote,
    reason=st.sampled_from(EndReason),
    keep_until=moments,
    destination=st.builds(DeadLetterDestination, container=names, account=st.just("") | names),
    topic_id=any_text,
    input_schema=st.sampled_from(InputSchema),
    delivery_schema=st.sampled_from(DeliverySchema),
    headers=st.lists(
        st.builds(StaticHeader, name=names, value=any_text)
        | st.builds(DynamicHeader, name=names, path=st.lists(any_text).map(tuple)),
        max_size=3,
    ).map(tuple),
)
messages = st.builds(
    MessagePart,
    topic=names,
    subscription=names,
    generation=names,
    deliveries=st.lists(deliveries().map(lambda one: [one]) | runs(), min_size=1, max_size=6).map(
        lambda groups: tuple(delivery for group in groups for delivery in group)
    ),
    due=st.none() | moments,
    rounds=st.integers(0, 3),
    batch_size=st.just(1) | st.integers(2, 5000),
    dead_letter=st.none() | notes,
)


@st.composite
def shared_parts(draw: st.DrawFn) -> list[MessagePart]:
    """Draw parts of several subscriptions that are due together, and get some events each."""
    events = [event for group in draw(st.lists(runs(), min_size=1, max_size=3)) for event in group]
    fresh = [
        Delivery(origin=each.origin, position=each.position, text=each.text) for each in events
    ]
    due, parts = draw(st.none() | moments), []
    for number in range(draw(st.integers(1, 12))):
        start = draw(st.integers(0, len(events) - 1))
        some = slice(start, start + draw(st.integers(1, 70)), draw(st.integers(1, 3)))
        parts.append(
            MessagePart(
                topic=draw(names),
                subscription=f"s-{number}",
                generation="g-1",
                deliveries=tuple((events if draw(st.booleans()) else fresh)[some]),
                due=due,
                batch_size=draw(st.sampled_from([1, 1, 2, 10, 100])),
            )
        )
    return parts


def waits(least: datetime = START) -> st.SearchStrategy[list[datetime]]:
    """Draw due times from *least* on, often close together."""
    seconds = st.floats(-5, 60) | st.floats(0, 86_400)
    return st.lists(seconds.map(lambda each: least + timedelta(seconds=each)), max_size=40)


_seconds = st.integers(0, 1000) | st.integers(0, 20)
_takes = st.integers(0, 40)


def _observation(
    outcome: Outcome, sent: int, takes: int, *, new: int, probe: bool, late: bool, alone: bool
) -> Observation:
    return Observation(
        outcome=outcome,
        new_events=new,
        sent_at=START + timedelta(seconds=sent),
        ended_at=START + timedelta(seconds=sent + takes),
        is_probe=probe,
        is_late=late and outcome is Outcome.DELIVERED,
        is_isolated=alone and not probe,
    )


observations = st.builds(
    _observation,
    st.sampled_from([each for each in Outcome if each is not Outcome.PROBATION])
    | st.just(Outcome.GENERIC_ERROR),
    _seconds,
    _takes,
    new=st.integers(0, 12),
    probe=st.booleans(),
    late=st.booleans(),
    alone=st.booleans(),
)


@st.composite
def healths(draw: st.DrawFn) -> Health:
    """Draw what a process knows after some pushes, and claims of probes between them."""
    health = Health(endpoint="g-1")
    rules = terms(profile=draw(st.sampled_from(["2019", "latest", "ns"])))
    for seen in draw(st.lists(observations, max_size=8)):
        if isinstance(availability(health, seen.sent_at), NeedsProbe):
            health = claim_probe(health, rules, seen.sent_at)
        health = observe(health, seen, rules)
    return health


def objects(*names: str, **known: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Objects with members of these *names*, and often sensible values for those *known*."""
    members: dict[str, st.SearchStrategy[Any]] = dict.fromkeys(names, json_values)
    members |= {name: value | json_values for name, value in known.items()}
    return st.fixed_dictionaries({}, optional=members)
