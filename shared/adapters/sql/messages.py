"""The rows of a message: its own, and those that say what waits in it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import timedelta
from typing import NamedTuple

from shared.adapters.sql.database import (
    Database,
    ReadTransaction,
    Row,
    WriteTransaction,
    micros,
    plain,
    text_of_plain,
)
from shared.adapters.sql.traits import SQL
from shared.clock import Clock
from shared.delivery.messages.message import MessagePart, OtherVersion, ReplayStep
from shared.delivery.messages.message_reader import decode
from shared.delivery.messages.message_writer import encode_remaining
from shared.delivery.messages.outline import Outline, outline_of
from shared.engine.ports import Queue, Receipt
from shared.errors import Unstorable
from shared.subscriptions.subscription import SubscriptionKey

FOR_HEADERS = 16 * 1024  # bytes of a dead letter, beside the size that the store names
_NO_WAIT = timedelta()
_NUMBERS_OF_A_START = 2**40  # of messages
_INSERT = (
    "INSERT INTO messages (id, queue, due, stored, run, receipt, receives, deaths, counts, body)"
    " VALUES (?, ?, ?, ?, ?, 0, 0, 0, ?, ?)"
)
_INSERT_PART = (
    "INSERT INTO parts (message, topic, subscription, deliveries, oldest, given_up)"
    " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (message, topic, subscription)"
    " DO UPDATE SET deliveries = parts.deliveries + excluded.deliveries, oldest = CASE"
    " WHEN excluded.oldest < parts.oldest THEN excluded.oldest ELSE parts.oldest END"
)
_INSERT_PAYLOAD = "INSERT INTO message_payloads (message, payload) VALUES (?, ?)"
MINE = "id = ? AND run = ?"  # a message in hand
#: A message by what `key_of` returns; by the index of what is due, others would be read.
UNTAKEN = "id = ? AND queue = ? AND receipt = ? AND run + 0 = 0"


class NewMessage(NamedTuple):
    """A message that is to be stored."""

    number: int
    text: str
    body: bytes
    outline: Outline
    due: int
    stored: int


def message_of(number: int, text: str, due: int) -> NewMessage:
    """Return a message that is there already, with another text."""
    return NewMessage(number, text, text.encode(), outline_of(text), due, due)


def numbers_of(start: int) -> Iterator[int]:
    """Return the numbers of the messages of a start, which no other start has."""
    return itertools.count(start * _NUMBERS_OF_A_START)


class NewMessages:
    """Numbers messages by *next_number*, and checks their texts."""

    def __init__(self, next_number: Callable[[], int], clock: Clock) -> None:
        self._next_number = next_number
        self._clock = clock

    def make(self, text: str, visible_in: timedelta) -> NewMessage:
        """
        Return a message with a number that no other has.

        Raises:
            Unstorable: it is too large, or no text that can be stored.
        """
        try:
            body = text.encode()
        except UnicodeEncodeError as error:
            raise Unstorable from error
        if len(body) > SQL.message_size + FOR_HEADERS:
            raise Unstorable
        now = self._clock.now()
        due = micros(now + max(_NO_WAIT, visible_in))
        return NewMessage(self._next_number(), text, body, outline_of(text), due, micros(now))


def insert(writing: WriteTransaction, queue: Queue, message: NewMessage, run: int = 0) -> None:
    """
    Store a message that *run* has in hand; 0: nobody has.

    One in hand mostly is gone soon: what waits in it stands in its own row.
    """
    parts = _parts_of(message.outline)
    in_row = json.dumps(parts) if run and parts else None
    writing.send(
        _INSERT + _if_new(writing),
        *(message.number, queue.value, message.due, message.stored, run, in_row, message.body),
    )
    if in_row is None:
        _insert_parts(writing, message.number, parts)
    _insert_payloads(writing, message)


NEVER = 2**62  # when a message is due that waits for the end of a pause


def park(writing: WriteTransaction, number: int, key: SubscriptionKey) -> None:
    """
    Let a new message of one subscription wait for the end of its pause.

    Or else for that of its endpoint's hold, and no longer than until it is due: then the hold is
    over by time, and somebody has to ask the endpoint.
    """
    waits = (
        "SELECT pause, CASE kind WHEN 'eventsubscriptions' THEN ? END FROM documents"
        " WHERE kind IN ('eventsubscriptions', 'endpointhealth') AND partition = ? AND name = ?"
        " AND pause IS NOT NULL ORDER BY kind DESC LIMIT 1"
    )
    for pause, due in writing.rows(waits, NEVER, *key):
        writing.run(
            "UPDATE messages SET due = COALESCE(?, due), parked = ? WHERE id = ?",
            *(due, _parked(writing, number, *key, pause), number),
        )


def _parked(writing: WriteTransaction, *row: int | str) -> int:
    """
    Return the row of `parked` that is like *row*, and is not deleted in this transaction.

    One transaction at a time adds some: two that did so in another order would wait for each other.
    """
    words = writing.dialect
    wanted = "SELECT id FROM parked WHERE topic = ? AND subscription = ? AND pause = ?"
    while not (found := writing.rows(wanted + words.sharing, *row[1:])):
        if words.parking:
            writing.rows(words.parking)
        writing.run(
            "INSERT INTO parked (id, topic, subscription, pause) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (topic, subscription, pause) DO NOTHING",
            *row,
        )
    return int(found[0][0])


def replace(writing: WriteTransaction, key: Row, message: NewMessage) -> bool:
    """Replace a message that nobody has received meanwhile; tell whether that is so."""
    replaced = writing.run(
        f"UPDATE messages SET due = ?, receipt = receipt + 1, body = ? WHERE {UNTAKEN}",
        *(message.due, message.body, *key),
    )
    if replaced:
        number = int(key[0])
        delete_rows(writing, number)
        _insert_parts(writing, number, _parts_of(message.outline))
        _insert_payloads(writing, message._replace(number=number))
    return bool(replaced)


def delete(writing: WriteTransaction, key: Row) -> bool:
    """Delete a message that nobody has received meanwhile; tell whether that is so."""
    deleted = writing.run(f"DELETE FROM messages WHERE {UNTAKEN}", *key)
    if deleted:
        delete_rows(writing, key[0])
    return bool(deleted)


def delete_rows(writing: WriteTransaction, number: int) -> None:
    """Delete what says what waits in a message."""
    writing.send("DELETE FROM parts WHERE message = ?", number)
    writing.send("DELETE FROM message_payloads WHERE message = ?", number)


def delete_in_hand(
    writing: WriteTransaction, number: int, run: int, *, has_rows: bool = True
) -> None:
    """Delete a message, if *run* has it in hand."""
    deleted = writing.run(f"DELETE FROM messages WHERE {MINE}", number, run)
    if deleted and has_rows:
        delete_rows(writing, number)


def put_down(writing: WriteTransaction, number: int) -> None:
    """Give a message that nobody has in hand any more its rows of parts."""
    for (counts,) in writing.rows("SELECT counts FROM messages WHERE id = ?", number):
        if counts is not None:
            _insert_parts(writing, number, json.loads(counts))
            writing.run("UPDATE messages SET counts = NULL WHERE id = ?", number)


def settle_parts(writing: WriteTransaction, number: int, keys: Collection[SubscriptionKey]) -> None:
    """Note that nothing is open any more of the parts with *keys*; others of the message are."""
    settled = {(plain(topic), plain(subscription)) for topic, subscription in keys}
    for (counts,) in writing.rows("SELECT counts FROM messages WHERE id = ?", number):
        if counts is not None:
            left = [part for part in json.loads(counts) if (part[0], part[1]) not in settled]
            writing.send("UPDATE messages SET counts = ? WHERE id = ?", json.dumps(left), number)
    statement = "DELETE FROM parts WHERE message = ? AND topic = ? AND subscription = ?"
    writing.run_all(statement, [(number, *names) for names in sorted(settled)])


def rewrite(writing: WriteTransaction, message: NewMessage) -> None:
    """Let a message in hand have the body of *message*, which has its number."""
    number, parts = message.number, _parts_of(message.outline)
    ((counts,),) = writing.rows("SELECT counts FROM messages WHERE id = ?", number)
    delete_rows(writing, number)
    _insert_payloads(writing, message)
    if counts is None:
        _insert_parts(writing, number, parts)
        writing.send("UPDATE messages SET body = ? WHERE id = ?", message.body, number)
    else:
        statement = "UPDATE messages SET body = ?, counts = ? WHERE id = ?"
        writing.send(statement, message.body, json.dumps(parts), number)


def body_of(reading: ReadTransaction, number: int) -> bytes:
    """Return what a message has that is there."""
    ((body,),) = reading.rows("SELECT body FROM messages WHERE id = ?", number)
    return bytes(body)


def open_keys(reading: ReadTransaction, number: int) -> set[SubscriptionKey]:
    """Return the subscriptions of the parts of a message that are not settled, in lower case."""
    ((counts,),) = reading.rows("SELECT counts FROM messages WHERE id = ?", number)
    return _open_keys(reading, number, counts)


def keys_in_hand(writing: WriteTransaction, number: int, run: int) -> set[SubscriptionKey] | None:
    """Do as `open_keys` for a message that *run* has in hand, and lock it; ``None``: it has not."""
    mine = f"SELECT counts FROM messages WHERE {MINE}{writing.dialect.locking}"
    found = writing.rows(mine, number, run)
    return _open_keys(writing, number, found[0][0]) if found else None


def _open_keys(reading: ReadTransaction, number: int, counts: str | None) -> set[SubscriptionKey]:
    if counts is None:
        wanted = "SELECT topic, subscription FROM parts WHERE message = ?"
        rows: Sequence[Sequence[str]] = reading.rows(wanted, number)
    else:
        rows = json.loads(counts)
    return {SubscriptionKey(text_of_plain(row[0]), text_of_plain(row[1])) for row in rows}


def open_text(text: str, keys: Collection[SubscriptionKey]) -> str:
    """Return the text of a message with its open parts alone, which have *keys*."""
    if len(outline_of(text).parts) <= len(keys):
        return text
    return encode_remaining(*(each for each in parts_of(text) if each.key.folded in keys))


def parts_of(text: str | bytes) -> Sequence[MessagePart]:
    """Return the parts of a message; none of one that has no deliveries of this version."""
    found = decode(text)
    return () if isinstance(found, (OtherVersion, ReplayStep)) else found


def receipt_for(number: int, version: int, run: int) -> Receipt:
    """
    Return the receipt of a message that was put, replaced or received as *run*.

    Numbers and versions come back after a restore: it is that process's alone, as what is in hand.
    """
    return Receipt(str(number), f"{version}.{run}")


def key_of(database: Database, queue: Queue, receipt: Receipt) -> Row | None:
    """
    Return what identifies a message in the table, in a transaction that writes.

    ``None``: such a receipt is not ours, or this process has been lost since.
    """
    try:
        version, run = map(int, receipt.version.split("."))
        key = int(receipt.message_id), queue.value, version
    except ValueError:
        return None
    return key if database.run_of(run) > 0 else None


def next_receipt(receipt: Receipt) -> Receipt:
    """Return the receipt of a message that was replaced by its receipt."""
    version, run = map(int, receipt.version.split("."))
    return receipt_for(int(receipt.message_id), version + 1, run)


def _parts_of(outline: Outline) -> Sequence[Sequence[str | int]]:
    """Return rows of `parts` without the message; names in lower case."""
    return [
        (
            plain(each.topic.lower()),
            plain(each.subscription.lower()),
            each.events,
            micros(each.oldest),
            int(outline.is_dead_letter),
        )
        for each in outline.parts
    ]


def _insert_parts(
    writing: WriteTransaction, number: int, parts: Sequence[Sequence[str | int]]
) -> None:
    writing.run_all(_INSERT_PART, [(number, *part) for part in parts])


def _insert_payloads(writing: WriteTransaction, message: NewMessage) -> None:
    names = sorted(message.outline.payloads)
    statement = _INSERT_PAYLOAD + _if_new(writing)
    writing.run_all(statement, [(message.number, name) for name in names])


def _if_new(writing: WriteTransaction) -> str:
    """What is repeated is stored once; a number that another message has is an error."""
    return " ON CONFLICT DO NOTHING" if writing.is_repeat else ""
