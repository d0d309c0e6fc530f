"""From publish requests to messages: few of them, and parts are cut only where they must be."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pushgrid.testing.memory import START
from shared.delivery.delivery import Origin
from shared.delivery.messages.message import MessagePart
from shared.delivery.messages.packing import (
    MAX_MESSAGE_EVENTS,
    MAX_UNPACKED,
    most_events,
    pack,
    surely_fits,
)
from shared.delivery.messages.publication import Publication, match, parked_lines
from shared.delivery.outcome import Outcome
from shared.engine.publishing.commit import fan_out
from shared.subscriptions.filters import EventFilter
from shared.subscriptions.subscription import Batching, EventSubscription
from tests.builders import (
    LONGEST_TRACE,
    MESSAGE_SIZE,
    ORIGIN,
    PARKED,
    TRACE,
    a_subscription,
    an_event,
    an_outcome,
    compact,
    encode,
    noise,
)
from tests.unit.delivery.messages.wire import a_publication, read_shared

EVENTS = [an_event(id=f"e-{n}", subject=f"/orders/{n}", eventType=f"T{n % 2}") for n in range(4)]
ALL = a_subscription(name="all")
ODD = a_subscription(name="odd", filter=EventFilter(included_event_types=frozenset({"t1"})))
NONE = a_subscription(name="none", filter=EventFilter(subject_begins_with="/returns"))
WIDEST = an_outcome(max(Outcome, key=len), 599)


def some(count: int, **overrides: object) -> list[EventSubscription]:
    return [a_subscription(name=f"s-{number}", **overrides) for number in range(count)]


def requests(count: int, events: int, subscriptions: list[EventSubscription]) -> list[Publication]:
    """Make so many requests with so many small events each, which all subscriptions want."""
    return [
        a_publication(
            [an_event()] * events,
            [(each, tuple(range(events))) for each in subscriptions],
            ORIGIN._replace(publish_id=f"{number:032x}"),
        )
        for number in range(count)
    ]


def read(publications: list[Publication]) -> list[tuple[MessagePart, ...]]:
    return read_shared([message.text for message in fan_out(publications, MESSAGE_SIZE)])


def test_each_subscription_gets_what_its_filter_wants() -> None:
    assert match(EVENTS, [ALL, ODD, NONE]) == [(ALL, (0, 1, 2, 3)), (ODD, (1, 3))]


def test_nothing_matches_without_subscriptions() -> None:
    assert match(EVENTS, []) == []
    assert fan_out([a_publication(EVENTS, [])], MESSAGE_SIZE) == []
    assert fan_out([], MESSAGE_SIZE) == []


@pytest.mark.parametrize(
    ("count", "events", "subscriptions", "messages"),
    [
        pytest.param(1, 1, 1, 1, id="one"),
        pytest.param(1, 1, 10, 1, id="one for ten"),
        pytest.param(16, 1, 1, 1, id="16 requests"),
        pytest.param(16, 1, 10, 3, id="16 requests for ten: four parts fit"),
        pytest.param(1, 64, 1, 1, id="full"),
        pytest.param(1, 65, 1, 2, id="one more"),
        pytest.param(13, 5, 1, 2, id="one more, of 13 requests"),
        pytest.param(1, 64, 10, 10, id="each fills its own"),
        pytest.param(1, 130, 3, 7, id="only the remainders share"),
        pytest.param(1, 33, 3, 3, id="no part is cut"),
        pytest.param(1, 1, 65, 2, id="64 deliveries"),
    ],
)
def test_messages_are_as_few_as_reasonable(
    count: int, events: int, subscriptions: int, messages: int
) -> None:
    found = read(requests(count, events, some(subscriptions)))

    assert len(found) == messages
    got = Counter(part.subscription for parts in found for part in parts for _ in part.deliveries)
    assert got == {f"s-{number}": count * events for number in range(subscriptions)}


@pytest.mark.parametrize(
    ("member", "values"),
    [
        pytest.param("topic", ["orders", "returns", "shop.orders"], id="several topics"),
        pytest.param("generation", ["g-1", "g-2"], id="recreated: the first was cached"),
    ],
)
def test_requests_of_several_share_a_message_in_parts_of_their_own(
    member: str, values: list[str]
) -> None:
    publications = [
        a_publication([EVENTS[0]], [(a_subscription(**{member: each}), (0,))]) for each in values
    ]

    (parts,) = read(publications)

    assert [getattr(part, member) for part in parts] == values


def test_events_of_several_requests_fill_a_batch() -> None:
    (parts,) = read(requests(20, 5, some(1, batching=Batching(max_events=100))))

    assert [(part.batch_size, len(part.deliveries)) for part in parts] == [(100, 100)]


def test_the_events_of_a_message_are_packed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    packed: list[int] = []

    def counted(texts: list[str]) -> str:
        packed.append(len(texts))
        return pack(texts)

    monkeypatch.setattr("shared.delivery.messages.packing.pack", counted)

    fan_out(requests(16, 1, some(10)), MESSAGE_SIZE)
    assert packed == [16]  # three messages
    packed.clear()

    fan_out(requests(1, 100, some(10)), MESSAGE_SIZE)
    assert packed == [64, 36]  # 20 messages


def test_equal_events_of_many_subscriptions_take_little_room() -> None:
    """Ten events of 30 KB for six subscriptions: a message an event, not one for each pair."""
    events = [an_event(data=noise(30_000, number)) for number in range(10)]

    messages = read([a_publication(events, [(each, tuple(range(10))) for each in some(6)])])

    assert len(messages) == 10


def test_no_more_than_memory_may_hold_shares_a_message() -> None:
    """They would pack well, but whoever reads the message unpacks them all."""
    size = MAX_UNPACKED // 3
    publications = [
        a_publication([an_event(id=str(number), data="x" * size)], [(subscription, (0,))])
        for number, subscription in enumerate(some(6))
    ]

    assert [len(parts) for parts in read(publications)] == [2, 2, 2]


def test_an_event_larger_than_that_is_shared_all_the_same() -> None:
    large = an_event(data="x" * (MAX_UNPACKED + 1))

    (parts,) = read([a_publication([large], [(each, (0,)) for each in some(3)])])

    assert len(parts) == 3


def test_only_what_is_wanted_and_too_large_is_parked() -> None:
    large = an_event(data=noise(60_000)).text
    texts = ["{}", large, large]

    assert parked_lines([(ALL, (0, 1))], texts, ORIGIN, MESSAGE_SIZE) == ["", large, ""]
    assert parked_lines([(ALL, (0,))], texts, ORIGIN, MESSAGE_SIZE) == []


@st.composite
def _publications(draw: st.DrawFn) -> list[Publication]:
    """Draw what a commit may hold: events of any size, for subscriptions that batch or do not."""
    subscriptions = [
        a_subscription(
            topic=f"topic-{number % 2}", name=f"s-{number}", batching=Batching(max_events=batch)
        )
        for number, batch in enumerate(
            draw(st.lists(st.sampled_from([1, 1, 7, 100]), min_size=1, max_size=12))
        )
    ]
    publications = []
    for number in range(draw(st.integers(1, 6))):
        sizes = draw(st.lists(st.sampled_from([0, 0, 10, 900, 9000, 60_000]), max_size=20))
        times = draw(st.sampled_from([1, 1, 10]))
        texts = [
            compact(noise(size, seed) if size else "x")
            for seed, size in enumerate(sizes * (times if sum(sizes) < 20_000 else 1))
        ]
        matched = [
            (each, positions)
            for each in subscriptions
            if (positions := tuple(range(draw(st.integers(0, 2)), len(texts), 1 + len(texts) % 2)))
        ]
        trace = draw(st.sampled_from([None, None, TRACE, LONGEST_TRACE]))
        origin = Origin(f"{number:032x}", START, None, 0, trace)
        parked = parked_lines(matched, texts, origin, MESSAGE_SIZE)
        if parked:
            origin = origin._replace(payload=PARKED.payload, first_line=number)
        publications.append(
            Publication(
                topic="orders",
                origin=origin,
                texts=texts,
                matched=matched,
                parked=parked,
                keep_until=START,
            )
        )
    return publications


@given(_publications())
def test_every_delivery_is_in_one_message_and_every_part_can_return(
    publications: list[Publication],
) -> None:
    """Reading enforces the limits. A part fails as a message of its own, whole if it batches."""
    found = fan_out(publications, MESSAGE_SIZE)
    messages = read_shared([message.text for message in found])

    got = Counter(
        (part.subscription, each.origin, each.position, each.text)
        for parts in messages
        for part in parts
        for each in part.deliveries
    )
    sent = Counter(
        (subscription.name, *_sent(each, i, text))
        for each in publications
        for subscription, positions in each.matched
        for i, text in enumerate(each.texts)
        if i in positions
    )
    assert got == sent
    for message, parts in zip(found, messages, strict=True):
        ids = {each.origin.publish_id for part in parts for each in part.deliveries}
        assert ids == {f"{number:032x}" for number in message.publications}
        for part in parts:
            tried = tuple(each.tried(WIDEST, START) for each in part.deliveries)
            assert len(encode(replace(part, deliveries=tried, due=START, rounds=3))) == 1


@given(_publications())
def test_what_fits_whole_is_not_cut(publications: list[Publication]) -> None:
    of_subscription: defaultdict[str, list[MessagePart]] = defaultdict(list)
    for parts in read(publications):
        for part in parts:
            of_subscription[part.subscription].append(part)

    for cut in of_subscription.values():
        whole = [each for part in cut for each in part.deliveries]
        size = cut[0].batch_size
        small = len(whole) <= min(most_events(size), MAX_MESSAGE_EVENTS)
        assert len(cut) == 1 or not small or not surely_fits(whole, size, MESSAGE_SIZE)


def _sent(publication: Publication, position: int, text: str) -> tuple[Origin, int, str | None]:
    """Return an event as its delivery has it: inline, or in the blob."""
    if publication.parked and publication.parked[position]:
        return publication.origin, position, None
    return publication.origin._replace(payload=None, first_line=0), position, text
