"""How many deliveries fit into one message, and which share it. Design §2."""

from __future__ import annotations

import tracemalloc
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pushgrid.testing.memory import START
from shared.delivery.delivery import Origin
from shared.delivery.messages.message_writer import encode_together
from shared.delivery.messages.packing import (
    MAX_BLOBS,
    MAX_EVENT,
    MAX_MESSAGE_EVENTS,
    MAX_UNPACKED,
    due_together,
    fits_inline,
    pack,
    unpack,
)
from shared.events.trace_context import TraceContext
from tests.builders import (
    LONGEST_TRACE,
    MESSAGE_SIZE,
    ORIGIN,
    PARKED,
    TRACE,
    a_delivery,
    a_message,
    compact,
    encode,
    noise,
)
from tests.strategies import event_texts, waits
from tests.unit.delivery.messages.wire import joined


@given(st.lists(event_texts, min_size=1, max_size=20))
def test_what_is_packed_is_unpacked(texts: list[str]) -> None:
    packed = pack(texts)

    assert unpack(packed, len(texts)) == texts
    assert unpack("", 0) == []
    assert packed.isascii()


@pytest.mark.parametrize(
    ("texts", "count"),
    [
        pytest.param(["{}"], 0, id="fewer"),
        pytest.param(["{}"], 2, id="more"),
        pytest.param(["x" * MAX_UNPACKED, "x"], 2, id="too large together"),
        pytest.param(["x" * (MAX_EVENT + 1)], 1, id="too large alone"),
    ],
)
def test_only_what_is_packed_so_is_unpacked(texts: list[str], count: int) -> None:
    packed = pack(texts)

    with pytest.raises(ValueError, match="events"):
        unpack(packed, count)


@pytest.mark.parametrize(
    "texts",
    [["x" * MAX_EVENT], ["x" * (MAX_UNPACKED - 5000), *["x"] * 5000]],
    ids=["one event", "many"],
)
def test_all_that_may_be_packed_is_unpacked(texts: list[str]) -> None:
    assert unpack(pack(texts), len(texts)) == texts


def test_no_more_is_inflated_than_a_message_may_have() -> None:
    """A message of 48 KiB could inflate to 36 MB."""
    bomb = pack(["x" * 30_000_000])
    tracemalloc.start()

    with pytest.raises(ValueError, match="too large"):
        unpack(bomb, 2)

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * MAX_UNPACKED


def counts(texts: list[str | None], origins: list[Origin] | None = None) -> list[int]:
    origins = origins or [ORIGIN] * len(texts)
    group = [
        a_delivery(number, text=text, origin=origin)
        for number, (text, origin) in enumerate(zip(texts, origins, strict=True))
    ]
    return [
        len(part.deliveries) for (part,), _ in encode_together([a_message(group)], MESSAGE_SIZE)
    ]


ALIKE = [compact({"n": number, "text": noise(1000)}) for number in range(100)]
DIFFERENT = [compact(noise(1022, number)) for number in range(100)]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param(["{}"], [1], id="one"),
        pytest.param(["{}"] * MAX_MESSAGE_EVENTS, [64], id="as many as a message has"),
        pytest.param(["{}"] * (MAX_MESSAGE_EVENTS + 1), [64, 1], id="one more"),
        pytest.param([None] * 65, [64, 1], id="parked"),
        pytest.param(["x" * 100_000] * 11, [5, 5, 1], id="limit of memory"),
        pytest.param(["x" * MAX_UNPACKED], [1], id="all the memory"),
        pytest.param(["x" * (MAX_UNPACKED + 1), "x"], [1, 1], id="too large goes alone"),
        pytest.param(["x", "x" * MAX_UNPACKED], [1, 1], id="too large goes alone, after another"),
        pytest.param(ALIKE, [64, 36], id="a kilobyte each, alike"),
        pytest.param(DIFFERENT, [42, 42, 16], id="a kilobyte each, incompressible"),
    ],
)
def test_events_are_divided_into_few_groups(texts: list[str | None], expected: list[int]) -> None:
    assert counts(texts) == expected


@pytest.mark.parametrize(
    ("size", "expected", "fits"),
    [(MESSAGE_SIZE // 4, [9] * 6 + [8], False), (2 * MESSAGE_SIZE, [62], True)],
)
def test_a_message_is_as_large_as_its_store_says(
    size: int, expected: list[int], *, fits: bool
) -> None:
    group = [a_delivery(number, text=text) for number, text in enumerate(DIFFERENT[:62])]

    written = [*encode_together([a_message(group)], size)]

    assert [len(part.deliveries) for (part,), _ in written] == expected
    assert all(len(text) <= size for _, text in written)
    assert fits_inline(noise(60_000), ORIGIN, size) is fits


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=150),
    st.integers(200, 6000),
)
def test_groups_keep_order_and_fit(kinds: list[int], size: int) -> None:
    """Inline and parked events of several requests, mixed."""
    inline = [noise(size, number) for number in range(3)]
    group = [
        a_delivery(
            number,
            text=inline[kind] if kind < 3 else None,
            origin=(ORIGIN if kind < 3 else PARKED)._replace(publish_id=f"{kind:032}"),
        )
        for number, kind in enumerate(kinds)
    ]

    texts = encode(a_message(group))

    assert joined(texts).deliveries == tuple(group)
    assert all(len(text) <= MESSAGE_SIZE for text in texts)


def test_few_payload_blobs_share_a_message() -> None:
    """Whoever delivers it holds them all in memory: 1.5 MB each (contract §1.5)."""
    origins = [PARKED._replace(payload=f"blob-{number // 2}") for number in range(40)]

    found = counts([None] * 40, origins)

    assert found == [2 * MAX_BLOBS, 2 * MAX_BLOBS, 40 - 4 * MAX_BLOBS]


def test_events_of_other_requests_inline_need_no_blob() -> None:
    origins = [ORIGIN._replace(publish_id=str(number)) for number in range(40)]

    assert counts(["{}"] * 40, origins) == [40]


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        pytest.param("", True, id="empty"),
        pytest.param("x" * 1_000_000, True, id="large but all alike"),
        pytest.param(noise(46_000), True, id="just fits"),
        pytest.param(noise(48_500), False, id="just too large"),
        pytest.param(noise(1_000_000), False, id="large"),
    ],
)
def test_an_event_is_inline_if_a_message_holds_it(text: str, *, fits: bool) -> None:
    assert fits_inline(text, ORIGIN, MESSAGE_SIZE) is fits


@pytest.mark.parametrize("trace", [None, TRACE, LONGEST_TRACE])
def test_whatever_fits_inline_fits_a_message_of_its_own(trace: TraceContext | None) -> None:
    """Also at the sizes where it begins not to fit, and all smaller ones do as well."""
    verdicts, origin = [], ORIGIN._replace(trace=trace)
    for size in range(23_000, 50_000, 450):
        text = noise(size)
        verdicts.append(fits_inline(text, origin, MESSAGE_SIZE))
        if verdicts[-1]:
            (message,) = encode(a_message([a_delivery(text=text, origin=origin)]))
            assert len(message) <= MESSAGE_SIZE
    assert all(before or not after for before, after in pairwise(verdicts))
    assert {True, False} == set(verdicts)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("seconds", "groups"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([10], [[10]], id="one"),
        pytest.param([10, 11], [[10, 11]], id="a tenth"),
        pytest.param([10, 11.1], [[10], [11.1]], id="more than a tenth"),
        pytest.param([1, 1.5], [[1, 1.5]], id="half a second at least"),
        pytest.param([1, 1.6], [[1], [1.6]], id="more than half a second"),
        pytest.param([3600, 3603], [[3600, 3603]], id="three seconds at most"),
        pytest.param([3600, 3603.1], [[3600], [3603.1]], id="more than three seconds"),
        pytest.param([10, 10.8, 11.6], [[10, 10.8], [11.6]], id="no chains: from the first one"),
        pytest.param([11, 10], [[10, 11]], id="the soonest first"),
        pytest.param([-60, -59.6, 0], [[-60, -59.6], [0]], id="overdue"),
    ],
)
def test_what_is_due_together_shares_a_message(
    seconds: list[float], groups: list[list[float]]
) -> None:
    waiting = [(at(each), a_delivery(number)) for number, each in enumerate(seconds)]

    found = list(due_together(waiting, START))

    expected = [
        (at(group[-1]), [a_delivery(seconds.index(each)) for each in group]) for group in groups
    ]
    assert found == expected


@given(waits())
def test_nothing_is_lost_nothing_twice_nothing_early_nothing_very_late(
    dues: list[datetime],
) -> None:
    waiting = [(due, a_delivery(number)) for number, due in enumerate(dues)]

    groups = list(due_together(waiting, START))

    given_back = [delivery.position for _, group in groups for delivery in group]
    assert sorted(given_back) == list(range(len(dues)))
    for due, group in groups:
        for delivery in group:
            late = due - dues[delivery.position]
            wait = dues[delivery.position] - START
            assert timedelta() <= late
            assert late <= min(max(wait * 0.1, timedelta(seconds=0.5)), timedelta(seconds=3))
