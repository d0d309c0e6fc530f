"""Gives messages to timers, which hide what they receive, and tells what waits."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from shared.adapters.sql.database import (
    Database,
    ReadTransaction,
    Row,
    WriteTransaction,
    micros,
    moment,
    text_of_plain,
)
from shared.adapters.sql.messages import UNTAKEN, delete, key_of, receipt_for
from shared.clock import Clock
from shared.engine.ports import Backlog, Peeked, Queue, Received
from shared.subscriptions.subscription import SubscriptionKey

RECEIVE_AT_MOST = 32
_VISIBLE = (
    "SELECT id FROM messages WHERE run = 0 AND queue = ? AND due <= ? ORDER BY due, id LIMIT ?"
)


class Waiting(NamedTuple):
    """The events that wait for a subscription, and when the oldest of them was published."""

    events: int
    oldest: int  # microseconds since 1970


class SqlQueues:
    """
    Receiver and QueueWatch. The queues are always there.

    What a run has in hand (`SqlLeases`) is no timer's.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def receive(self, queue: Queue, hidden_for: timedelta) -> Sequence[Received]:
        now = micros(self._clock.now())
        hidden_until = now + max(hidden_for, timedelta(seconds=1)) // timedelta(microseconds=1)

        def write(writing: WriteTransaction) -> tuple[list[Row], int]:
            words = writing.dialect
            visible = words.chosen.format(_VISIBLE + words.skipping)
            rows = writing.rows(
                "UPDATE messages SET due = ?, receipt = receipt + 1, receives = receives + 1"
                f" WHERE id {visible} RETURNING id, receipt, receives, body",
                *(hidden_until, queue.value, now, RECEIVE_AT_MOST),
            )
            return rows, self._database.run

        rows, run = self._database.write(write)
        return [
            Received(text=body.decode(), receipt=receipt_for(number, version, run), count=receives)
            for number, version, receives, body in sorted(rows)
        ]

    def delete(self, queue: Queue, message: Received) -> None:
        def write(writing: WriteTransaction) -> None:
            if key := key_of(self._database, queue, message.receipt):
                delete(writing, key)

        self._database.write(write)

    def hide(self, queue: Queue, message: Received, visible_in: timedelta) -> None:
        due = micros(self._clock.now() + visible_in)
        hidden = f"UPDATE messages SET due = ?, receipt = receipt + 1 WHERE {UNTAKEN}"

        def write(writing: WriteTransaction) -> None:
            if key := key_of(self._database, queue, message.receipt):
                writing.run(hidden, due, *key)

        self._database.write(write)

    def peek(self, queue: Queue) -> Backlog | None:
        now = micros(self._clock.now())

        def read(reading: ReadTransaction) -> Backlog:
            name = queue.value
            free, in_hand = (
                reading.rows(f"SELECT COUNT(*) FROM messages WHERE {of} AND queue = ?", name)[0][0]
                for of in ("run = 0", "run > 0")
            )
            visible = reading.rows(
                "SELECT body, stored FROM messages WHERE run = 0 AND queue = ? AND due <= ?"
                " ORDER BY due, id LIMIT ?",
                *(name, now, RECEIVE_AT_MOST),
            )
            peeked = [Peeked(body.decode(), moment(stored)) for body, stored in visible]
            return Backlog(free + in_hand, peeked)

        return self._database.read(read)

    def make(self, queue: Queue) -> None:
        """Do nothing: it is there."""

    def unfinished(self) -> tuple[dict[SubscriptionKey, Waiting], dict[SubscriptionKey, Waiting]]:
        """
        Return what waits for each subscription, and what waits for its dead-letter blob.

        They are exact; names are in lower case.
        """
        rows = self._database.read(
            lambda reading: reading.rows(
                "SELECT given_up, topic, subscription, CAST(SUM(deliveries) AS BIGINT), MIN(oldest)"
                " FROM (SELECT given_up, topic, subscription, deliveries, oldest FROM parts"
                " UNION ALL SELECT CAST(value ->> 4 AS BIGINT), value ->> 0, value ->> 1,"
                " CAST(value ->> 2 AS BIGINT), CAST(value ->> 3 AS BIGINT)"
                f" FROM messages, {reading.dialect.counts} WHERE run > 0 AND counts IS NOT NULL"
                ") AS found GROUP BY given_up, topic, subscription"
            )
        )
        found: tuple[dict[SubscriptionKey, Waiting], ...] = ({}, {})
        for given_up, topic, name, *counted in rows:
            key = SubscriptionKey(text_of_plain(topic), text_of_plain(name))
            found[given_up][key] = Waiting(*counted)
        return found[0], found[1]
