"""Rows that come from sets are written in the order of their keys: what is played is repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import pytest

from shared.adapters.sql.counts import SqlCounts
from shared.adapters.sql.database import Row
from shared.adapters.sql.dialects import SQLITE
from shared.adapters.sql.messages import NewMessage, insert, settle_parts
from shared.delivery.messages.outline import Outline
from shared.engine.ports import Queue
from shared.metrics import CountRow, Span
from shared.subscriptions.subscription import SubscriptionKey

NAMES = {f"n{number:02}" for number in range(40)}


class Written:
    """A transaction, or the database with it, that keeps what is written by many rows."""

    dialect = SQLITE
    is_repeat = False

    def __init__(self) -> None:
        self.all: list[Row] = []

    def rows(self, *_: object) -> list[Row]:
        return [(None,)]

    def send(self, *_: object) -> None:
        """Keep nothing."""

    def run_all(self, _: str, parameters: Iterable[Row]) -> None:
        self.all += parameters

    def write(self, write: Callable[[Any], None]) -> None:
        write(self)


def settled(writing: Any) -> None:
    settle_parts(writing, 1, {SubscriptionKey("orders", name) for name in NAMES})


def inserted(writing: Any) -> None:
    insert(writing, Queue.RETRIES, NewMessage(1, "", b"", Outline(payloads=NAMES), 0, 0), 0)


def counted(writing: Any) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    SqlCounts(writing).write([CountRow(Span.HOUR, start, "t", each, "one", {}) for each in NAMES])


@pytest.mark.parametrize("write", [settled, inserted, counted])
def test_rows_are_written_in_the_order_of_their_keys(write: Callable[[Any], None]) -> None:
    written = Written()
    write(written)
    assert len(written.all) == len(NAMES)
    assert written.all == sorted(written.all)
