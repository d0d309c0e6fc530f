"""How many connections to one host and port may be opening: the rule, on a clock of numbers."""

from __future__ import annotations

from shared.delivery.opening_bound import (
    COUNTED,
    FIRST,
    LEAST,
    MOST,
    REPEATED_SYN,
    OpeningBound,
)

ROUND = COUNTED  # seconds


def full(bound: OpeningBound, now: float) -> tuple[OpeningBound, int]:
    """Open as many as may be; return how many these were."""
    for opened in range(2 * MOST):
        bound, may_open = bound.ask(now)
        if not may_open:
            return bound, opened
    raise AssertionError("no bound")


def wanted(value: int = FIRST, now: float = 0.0) -> OpeningBound:
    """A bound that is in full use, and of which more is wanted."""
    return full(OpeningBound(value), now)[0]


def test_as_many_may_be_opening_as_the_shortest_accept_queue_holds() -> None:
    bound, opened = full(OpeningBound(), 0.0)

    assert (opened, full(bound, 0.1)[1]) == (5, 0)
    assert full(bound.released(), 0.1)[1] == 1


def test_300_to_a_server_that_accepts_and_answers_late_are_open_in_its_sixth_round() -> None:
    """The first round is at 0 s: the sixth is at 1.25 s, and the answers come after 2 s."""
    bound, opened, rounds = OpeningBound(), 0, 0
    while opened < 300:
        now = rounds * ROUND
        for _ in range(bound.opening):
            bound = bound.accepted(now).released()
        bound, more = full(bound, now)
        opened, rounds = opened + more, rounds + 1

    assert (rounds, opened) == (6, 315)


def test_each_kept_connection_widens_it_by_one_while_more_are_wanted() -> None:
    assert wanted().answered(0.01, kept=True).value == FIRST + 1
    assert wanted().answered(5.0, kept=True).value == FIRST
    assert OpeningBound().answered(0.01, kept=True).value == FIRST


def test_answers_of_a_peer_that_closes_widen_nothing_at_first() -> None:
    """456 requests at once to a server that takes one connection at a time."""
    bound, answers, most = wanted(), 0, 0
    while answers < 456:
        answers += 1
        now = answers * 0.004  # 1.8 s in all
        bound = bound.answered(now, kept=False).released()
        bound, _ = full(bound, now)
        most = max(most, bound.opening)

    assert most == FIRST


def test_a_peer_that_closes_has_twice_as_many_after_more_was_wanted_for_two_seconds() -> None:
    bound = wanted()
    values = []
    for tenths in range(1, 50):
        now = tenths / 10
        bound = bound.answered(now, kept=False).released()
        bound, _ = full(bound, now)
        values.append(bound.value)

    assert (values[18], values[19], values[38], values[39]) == (5, 10, 10, 20)


def test_a_repeated_syn_halves_it_once_for_all_that_began_before() -> None:
    bound = wanted(40)
    for number in range(40):
        bound = bound.delayed(0.0, REPEATED_SYN + number / 1000)
    assert bound.value == 20

    assert bound.delayed(1.0, 2.0).value == 10


def test_it_is_never_narrower_than_its_least_nor_wider_than_its_most() -> None:
    bound, wide = OpeningBound(), wanted(MOST)
    for seconds in range(10):
        bound = bound.delayed(float(seconds), seconds + REPEATED_SYN)

    assert bound.value == LEAST
    assert wide.answered(0.0, kept=True).value == MOST


def test_after_a_repeated_syn_a_peer_that_closes_waits_again_for_two_seconds() -> None:
    bound = wanted().delayed(0.0, 1.9)
    bound, _ = full(bound, 2.0)

    assert bound.answered(2.1, kept=False).value == bound.value
