"""Has what each database says in words of its own, but for its schema."""

from __future__ import annotations

from typing import NamedTuple

#: A lease of PostgreSQL's is the id of a process, and a number of so many bits that rises.
NUMBER_BITS = 20
MOST_NUMBER = 2**NUMBER_BITS - 1
DEATHS_TOGETHER = 3  # a message with as many is a suspect
#: The columns of attempts but the last, `event`.
ATTEMPT = "topic, subscription, hour, system_id, number, ends, event_id, made, replay_of, record"


class Dialect(NamedTuple):
    """
    Parts of statements.

    The selections of messages end with how many; their other parameters are named here. What is
    selected and then changed is locked: who finds it locked takes other rows.
    """

    left: str  # what dead processes had in hand: our run, queue, deaths
    suspects: str  # the same, or free, of many deaths: our run, deaths, deaths
    chosen: str  # what is in a selection, made once: else each making would lock other rows
    skipping: str  # ends a selection of rows that are then changed
    locking: str  # ends a selection of rows that nobody else may then change or share
    sharing: str  # ends a selection of rows that nobody may change until the end
    parking: str  # who adds pauses to `parked` does so alone: a statement, if it takes one
    counts: str  # the rows in `counts`, as `value`
    attempts: str  # what is stored of rows of attempts
    has_attempt_hours: bool  # `attempt_hours` tells what attempts take


SQLITE = Dialect(
    left="SELECT id FROM messages WHERE run > 0 AND run < ? AND queue = ? AND deaths < ?"
    " ORDER BY id LIMIT ?",
    suspects="SELECT id FROM messages WHERE deaths > 0 AND ((run > 0 AND run < ? AND deaths >= ?)"
    " OR (run = 0 AND deaths >= ?)) ORDER BY id LIMIT ?",
    chosen="IN ({})",
    skipping="",
    locking="",
    sharing="",
    parking="",
    counts="json_each(counts)",
    attempts="VALUES {}",
    has_attempt_hours=True,
)

#: The leases that are free by definition: of a process that is marked dead, or of a lower number.
_LEFT = (
    f"run > 0 AND run BETWEEN processes.id << {NUMBER_BITS} AND (processes.id << {NUMBER_BITS})"
    f" + CASE WHEN dead THEN {MOST_NUMBER} ELSE number - 1 END"
)
#: Whatever a process has had in hand, under any of its numbers.
OF_PROCESS = (
    f"run BETWEEN processes.id << {NUMBER_BITS} AND (processes.id << {NUMBER_BITS}) + {MOST_NUMBER}"
)
_BY_ID = "messages.id + 0"  # By the index of ids, what nobody has would be read from the start.
_SKIP = " FOR UPDATE OF messages SKIP LOCKED"
_PARKING = 0x50475250  # "PGRP": the first key of a lock
#: Plans are chosen before there are statistics, too: in a new database, or one from a dump.
POSTGRESQL = Dialect(
    # LATERAL: for each process its own messages are read, not for all of them all in hand.
    left="SELECT found.id FROM processes CROSS JOIN LATERAL (SELECT messages.id FROM messages"
    f" WHERE {_LEFT} AND run <> ? AND queue = ? AND deaths < ? ORDER BY {_BY_ID}{_SKIP})"
    " AS found LIMIT ?",
    # BETWEEN: of a range, few rows are expected.
    suspects=f"SELECT messages.id FROM messages LEFT JOIN processes ON {_LEFT}"
    f" WHERE deaths BETWEEN {DEATHS_TOGETHER - 1} AND {2**31}"
    " AND ((processes.id IS NOT NULL AND run <> ? AND deaths >= ?) OR (run = 0 AND deaths >= ?))"
    f" ORDER BY {_BY_ID} LIMIT ?{_SKIP}",
    chosen="= ANY(ARRAY({}))",  # A plan may make that of IN anew for each row that it reads.
    skipping=" FOR UPDATE SKIP LOCKED",
    locking=" FOR UPDATE",
    sharing=" FOR SHARE",
    parking=f"SELECT pg_advisory_xact_lock({_PARKING}, hashtext(current_schema()))",
    counts="json_array_elements(CAST(counts AS json)) AS found (value)",
    # Without its day a record is dropped: nothing else is to fail.
    attempts=f"SELECT {ATTEMPT}, CAST(event AS BYTEA) FROM (VALUES {{}})"
    f" AS found ({ATTEMPT}, event)"
    " WHERE EXISTS (SELECT 1 FROM attempt_days WHERE day = hour - hour % 86400000000)",
    has_attempt_hours=False,
)
