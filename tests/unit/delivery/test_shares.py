"""How the processes of a deployment share its limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.delivery.shares import ALONE, Share, share_of


@given(whole=st.integers(1, 100_000), processes=st.integers(1, 200))
def test_all_shares_together_are_the_limit(whole: int, processes: int) -> None:
    shares = [Share(place, processes).of(whole) for place in range(processes)]

    assert sum(shares) == whole
    assert max(shares) - min(shares) <= 1


@given(
    whole=st.integers(1, 300),
    users=st.sets(st.integers(0, 20), min_size=1),
    others=st.lists(st.sets(st.integers(0, 20)), min_size=21, max_size=21),
)
def test_who_counts_more_than_there_are_takes_no_more(
    whole: int, users: set[int], others: list[set[int]]
) -> None:
    """Each counts all that have a share and, as rows are read at different times, some others."""
    shares = []
    for user in users:
        counted = sorted(users | others[user])
        shares.append(Share(counted.index(user), len(counted)).of(whole))

    assert sum(shares) <= whole


@pytest.mark.parametrize(
    ("whole", "processes", "shares"),
    [
        (10, 1, [10]),
        (10, 3, [4, 3, 3]),
        (20, 3, [7, 7, 6]),
        (2, 3, [1, 1, 0]),
        (1, 4, [1, 0, 0, 0]),
    ],
)
def test_the_shares_of_a_limit(whole: int, processes: int, shares: list[int]) -> None:
    assert [Share(place, processes).of(whole) for place in range(processes)] == shares


def test_the_place_of_a_process_is_that_of_its_name() -> None:
    assert share_of("c", []) == ALONE
    assert [share_of(*each) for each in (("a", "bc"), ("b", "ac"), ("c", "ab"))] == [
        Share(0, 3),
        Share(1, 3),
        Share(2, 3),
    ]
