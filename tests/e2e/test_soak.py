"""The short form of `make soak`: whatever is attacked, the ledger finds no fault."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.soak.command import play_brief
from bench.soak.state import occurrences, table


@pytest.mark.timeout(600)
def test_nothing_is_lost_changed_or_ended_wrongly(report: Callable[[str], None]):
    """
    Seven deployments at a time.

    The host is killed at six kinds of storage requests and in the middle of pushes, every other
    request fails in some way, Azurite is stopped and started, one of two hosts is killed, the host
    ends as on Azure, it is short of descriptors, names and processor time, and queues have messages
    that are none.
    """
    played = play_brief("azurite", seed=1)
    rows = sorted(played.rows.values())
    report(f"{table(rows)}\n\n{occurrences(played.seen)}")

    assert [row.scenario for row in rows if row.faults] == []
    assert all(row.accepted and row.runs for row in rows)
    assert played.unseen == []
