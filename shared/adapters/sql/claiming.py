"""Takes messages of the table in hand: what a transaction says for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from shared.adapters.sql.database import ReadTransaction, Row, WriteTransaction, moment
from shared.adapters.sql.dialects import DEATHS_TOGETHER
from shared.adapters.sql.hand import SqlReceipt
from shared.adapters.sql.messages import (
    MINE,
    NEVER,
    delete_in_hand,
    message_of,
    open_keys,
    open_text,
    parts_of,
    rewrite,
)
from shared.adapters.sql.traits import SQL
from shared.delivery.messages.copies import without_copies
from shared.delivery.messages.merging import headers_of, merged
from shared.delivery.messages.message import MessagePart
from shared.delivery.messages.message_writer import encode_together
from shared.delivery.messages.outline import outline_of
from shared.engine.ports import Queue
from shared.engine.ports.leases import Lease

_TOGETHER = 50_000  # microseconds: so much later are those pushed that are merged with others
CLAIM = (
    "UPDATE messages SET run = ?, parked = NULL,"
    " deaths = deaths + CASE WHEN run > 0 THEN 1 ELSE 0 END"
    " WHERE id {} RETURNING id, queue, body, due, deaths, receives"
)
_DUE = (
    "SELECT id FROM messages WHERE run = 0 AND queue = ? AND due BETWEEN ? AND ?"
    " ORDER BY due, id LIMIT ?"
)
#: Not MIN: without statistics PostgreSQL may read all that waits for it.
_NEXT = (
    "SELECT due FROM messages WHERE run = 0 AND queue = ? AND due BETWEEN ? AND ?"
    " ORDER BY due LIMIT 1"
)
_FREED = "SELECT id FROM messages WHERE parked = ? ORDER BY id LIMIT ?"
_IN_HAND = f"SELECT id, queue, body, due, deaths, receives FROM messages WHERE {MINE}"
#: What nothing keeps parked any more.
_UNPARKED = (
    "SELECT id FROM parked WHERE NOT EXISTS (SELECT 1 FROM documents"
    " WHERE kind IN ('eventsubscriptions', 'endpointhealth')"
    " AND partition = topic AND name = subscription AND documents.pause = parked.pause)"
    " OR NOT EXISTS (SELECT 1 FROM documents WHERE kind = 'eventsubscriptions'"
    " AND partition = topic AND name = subscription) ORDER BY id"
)


def in_hand(writing: WriteTransaction, run: int, numbers: Iterable[int]) -> list[Row]:
    """Return the messages with *numbers* that *run* has in hand."""
    return [row for each in numbers for row in writing.rows(_IN_HAND, each, run)]


def _claim(writing: WriteTransaction, run: int, selection: str, *given: object) -> list[Row]:
    """Take in hand what *selection* returns."""
    return writing.rows(CLAIM.format(writing.dialect.chosen.format(selection)), run, *given)


def claim_left(writing: WriteTransaction, run: int, queue: Queue, most: int) -> list[Row]:
    """Claim what processes had in hand that have died."""
    return _claim(writing, run, writing.dialect.left, run, queue.value, DEATHS_TOGETHER - 1, most)


def claim_due(
    writing: WriteTransaction, run: int, queue: Queue, due: tuple[int, int], most: int
) -> tuple[list[Row], int]:
    """Claim what is due between two moments; return it, and until when all of it was taken."""
    rows = _claim(writing, run, _DUE + writing.dialect.skipping, queue.value, *due, most)
    return rows, max(row[3] for row in rows) if len(rows) >= most else due[1] + 1


def claim_freed(writing: WriteTransaction, run: int, most: int, now: int) -> list[Row]:
    """Claim what was parked for a pause or hold that is over, or whose subscription is gone."""
    rows: list[Row] = []
    for (parked,) in writing.rows(_UNPARKED):
        left = most - len(rows)
        freed = _claim(writing, run, _FREED + writing.dialect.skipping, parked, left)
        writing.run_all(
            "UPDATE messages SET due = ? WHERE id = ?", [(now, row[0]) for row in freed]
        )
        rows += [(*row[:3], now, *row[4:]) for row in freed]
        if len(freed) >= left:
            break
        # Locked first: who parks meanwhile is seen then, and not waited for.
        own = f"SELECT id FROM parked WHERE id = ?{writing.dialect.skipping}"
        if writing.rows(own, parked):
            writing.run(
                "DELETE FROM parked WHERE id = ?"
                " AND NOT EXISTS (SELECT 1 FROM messages WHERE parked = parked.id)",
                parked,
            )
    return rows


def claim_suspects(writing: WriteTransaction, run: int, most: int) -> list[Row]:
    """Claim one that has ended a process as a suspect, which runs alone; or else *most*."""
    some, deaths = writing.dialect.suspects, DEATHS_TOGETHER
    rows = _claim(writing, run, some, run, deaths, deaths + 1, 1)
    return rows or _claim(writing, run, some, run, deaths - 1, deaths, most)


def next_due(reading: ReadTransaction, queue: Queue, floor: int) -> datetime | None:
    found = reading.rows(_NEXT, queue.value, floor, NEVER - 1)
    return moment(found[0][0]) if found else None


def merge(writing: WriteTransaction, rows: Sequence[Row], run: int, now: int) -> list[Row]:
    """
    Merge claimed messages of the same subscriptions that are overdue, or due at almost one time.

    Those that have failed, or ended a process, stay alone.
    """
    alike: dict[object, list[Row]] = defaultdict(list)
    found = []
    for row in rows:
        _, _, body, due, deaths, receives = row
        outline = outline_of(body.decode())
        if outline.parts and not deaths and not receives:
            subscriptions = frozenset(each[:2] for each in outline.parts)
            alike[subscriptions, max(due, now) // _TOGETHER].append(row)
        else:
            found.append(row)
    for group in alike.values():
        found += _merge_alike(writing, group, run)
    return found


def _merge_alike(writing: WriteTransaction, rows: Sequence[Row], run: int) -> list[Row]:
    """Merge messages of the same names, if they have the same parts otherwise."""
    if len(rows) == 1:
        return [*rows]
    by_headers: dict[object, list[tuple[Row, Sequence[MessagePart]]]] = defaultdict(list)
    for row, parts in zip(rows, without_copies([parts_of(row[2]) for row in rows]), strict=True):
        by_headers[headers_of(parts)].append((row, parts))
    found = []
    for group in by_headers.values():
        due = max(row[3] for row, _ in group)
        together = [replace(each, due=moment(due)) for each in merged(parts for _, parts in group)]
        texts = [text for _, text in encode_together(together, SQL.message_size)]
        if len(texts) >= len(group):
            found += [row for row, _ in group]
            continue
        for (row, _), text in zip(group, texts, strict=False):
            rewrite(writing, message_of(row[0], text, due))
            found.append((*row[:2], text.encode(), due, *row[4:]))
        for row, _ in group[len(texts) :]:
            delete_in_hand(writing, row[0], run)
    return found


def open_row(writing: WriteTransaction, row: Row) -> Row:
    """Return a claimed row with the text of what is not settled: a process may have died midway."""
    number, queue, body, *others = row
    text = open_text(body.decode(), open_keys(writing, number))
    return (number, queue, text.encode(), *others)


def lease_of(row: Row, run: int) -> Lease:
    number, queue, body, due, deaths, _ = row
    return Lease(Queue(queue), body, SqlReceipt(number, run, moment(due), deaths))
