"""The short form of `make soak` with `--store sqlite` and `--store postgres`: `pushgrid serve`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.soak.command import play_brief
from bench.soak.sqlite_deployment import can_have_disk
from bench.soak.state import occurrences, table


@pytest.mark.timeout(600)
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_nothing_is_lost_changed_or_ended_wrongly(store: str, report: Callable[[str], None]):
    """
    Some deployments at a time.

    On SQLite, the server is killed at nine kinds of statements, in the middle of pushes, at short
    intervals, in a pause and during a replay, and ended in order; its database is locked, its syncs
    fail until it ends, its disk is full, and it is stopped for longer than its timeouts. On
    PostgreSQL, one of two servers is killed at four kinds of statements, both are in a pause and
    during a replay, and PostgreSQL alone and with them; connections are cut at commits.
    """
    played = play_brief(store, seed=1)
    rows = sorted(played.rows.values())
    report(f"{table(rows)}\n\n{occurrences(played.seen)}")

    assert [row.scenario for row in rows if row.faults] == []
    assert all(row.accepted and row.runs for row in rows)
    assert played.unseen == []
    assert store != "sqlite" or "disk full" in played.rows or not can_have_disk()
