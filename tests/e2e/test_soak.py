"""The short form of `make soak`: whatever is attacked, nothing that was accepted is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.soak.command import play_brief
from bench.soak.state import table


@pytest.mark.timeout(600)
def test_nothing_accepted_is_lost(report: Callable[[str], None]):
    """
    Six deployments at a time.

    The host is killed at six kinds of storage requests and in the middle of pushes, every other
    request fails in some way, Azurite is stopped and started, one of two hosts is killed, the host
    is short of descriptors, names and processor time, and queues have messages that are none.
    """
    rows = play_brief(seed=1)
    report(table(rows))

    assert [row.scenario for row in rows if row.lost or row.waiting] == []
    assert all(row.accepted and row.runs for row in rows)
