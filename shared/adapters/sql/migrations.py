"""
The schema, as the numbered steps that lead to it.

Each step names the oldest schema whose programs may use the database after it: a program writes
what the one before reads, until none of those is left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from shared import VERSION
from shared.adapters.sql.database import Row, StoreRefused


class Migration(NamedTuple):
    """A step, and who may use the database after it."""

    number: int
    oldest: int  # the number of the last step that a program must know
    program: str  # the version that brought the step with that number
    script: str

    @property
    def statements(self) -> list[str]:
        """The statements, without comments."""
        code = "\n".join(line for line in self.script.split("\n") if not line.startswith("--"))
        return [each.strip() for each in code.split(";") if each.strip()]


#: How each database writes types and tables. What is compared is compared by code points.
#: state: what it begins with.
_DIALECTS: Mapping[str, Mapping[str, str]] = {
    "sqlite": {
        "number": "INTEGER",
        "text": "TEXT",
        "bytes": "BLOB",
        "table": "STRICT",
        "small": "STRICT, WITHOUT ROWID",
        "by_hour": "STRICT",
        "due": "queue, due",  # each entry ends with the id
        "state": "('run', 0), ('seen', 0), ('catalogue', 0)",
    },
    "postgresql": {
        "number": "BIGINT",
        "text": 'TEXT COLLATE "C"',
        "bytes": "BYTEA",
        "table": "",
        "small": "",
        "by_hour": "PARTITION BY RANGE (hour)",
        "due": "queue, due, id",
        "state": "('run', 0), ('catalogue', 0)",
    },
}

_SCRIPT_1 = """
-- A row a value: the number of this start, the version of the catalogue; in SQLite also the latest
-- time seen.
CREATE TABLE state (name {text} PRIMARY KEY, value {number} NOT NULL) {small};
INSERT INTO state (name, value) VALUES {state};

CREATE TABLE migrations (
  number {number} PRIMARY KEY, oldest {number} NOT NULL, program {text} NOT NULL
) {table};

-- pause: which pause of a subscription, or hold of its endpoint, is not over.
CREATE TABLE documents (
  kind {text} NOT NULL, partition {text} NOT NULL, name {text} NOT NULL, etag {text} NOT NULL,
  pause {text}, document {text} NOT NULL, PRIMARY KEY (kind, partition, name)
) {table};

-- run: who has it in hand: a start; on PostgreSQL a process and its number; 0: nobody has.
-- parked: the row of `parked` that it waits for.
-- counts: of a message that is delivered at once, what `parts` has of all others.
CREATE TABLE messages (
  id {number} PRIMARY KEY, queue {text} NOT NULL, due {number} NOT NULL, stored {number} NOT NULL,
  run {number} NOT NULL, receipt {number} NOT NULL, receives {number} NOT NULL,
  deaths {number} NOT NULL, parked {number}, counts {text}, body {bytes} NOT NULL
) {table};
CREATE INDEX messages_due ON messages ({due}) WHERE run = 0;
CREATE INDEX messages_run ON messages (run) WHERE run > 0;
CREATE INDEX messages_deaths ON messages (deaths) WHERE deaths > 0;
CREATE INDEX messages_parked ON messages (parked, id) WHERE parked IS NOT NULL;
-- What parked messages wait for: the end of a pause or hold. Once its subscription or endpoint has
-- another or none, they are free.
CREATE TABLE parked (
  id {number} PRIMARY KEY, topic {text} NOT NULL, subscription {text} NOT NULL,
  pause {text} NOT NULL, UNIQUE (topic, subscription, pause)
) {table};

-- given_up: 1 for what waits for its dead-letter blob.
CREATE TABLE parts (
  message {number} NOT NULL, topic {text} NOT NULL, subscription {text} NOT NULL,
  deliveries {number} NOT NULL, oldest {number} NOT NULL, given_up {number} NOT NULL,
  PRIMARY KEY (message, topic, subscription)
) {small};

CREATE TABLE message_payloads (
  message {number} NOT NULL, payload {text} NOT NULL, PRIMARY KEY (message, payload)
) {small};
CREATE INDEX message_payloads_payload ON message_payloads (payload);

CREATE TABLE payloads (
  name {text} PRIMARY KEY, expires {number} NOT NULL, body {bytes} NOT NULL
) {table};
CREATE INDEX payloads_expires ON payloads (expires);

CREATE TABLE blobs (
  container {text} NOT NULL, path {text} NOT NULL, written {number} NOT NULL, etag {text} NOT NULL,
  size {number} NOT NULL, summary {text}, body {bytes} NOT NULL, PRIMARY KEY (container, path)
) {table};
CREATE INDEX blobs_written ON blobs (written);

-- hour: of publishing. ends: 1 for an end that follows the last attempt. Records are appended: as a
-- part of the key's own tree each would take a page.
CREATE TABLE attempts (
  topic {text} NOT NULL, subscription {text} NOT NULL, hour {number} NOT NULL,
  system_id {text} NOT NULL, number {number} NOT NULL, ends {number} NOT NULL, event_id {text},
  made {number} NOT NULL, replay_of {text}, record {text} NOT NULL, event {bytes},
  PRIMARY KEY (topic, subscription, hour, system_id, number, ends)
) {by_hour};
CREATE INDEX attempts_event ON attempts (event_id, topic, subscription, hour)
  WHERE event_id IS NOT NULL;

-- span: minute, hour, or sum: of all hours up to its start.
CREATE TABLE counts (
  span {text} NOT NULL, topic {text} NOT NULL, subscription {text} NOT NULL,
  start {number} NOT NULL, instance {text} NOT NULL, counts {text} NOT NULL,
  PRIMARY KEY (span, topic, subscription, start, instance)
) {small};
CREATE INDEX counts_start ON counts (span, start);
"""
_STEPS = (Migration(1, 1, "0.1.0", _SCRIPT_1),)
#: What SQLite alone has after a step; what PostgreSQL alone has: `postgres/schema.py`.
_SQLITE = {
    1: """
-- Records are deleted by their hour. bytes: at least what those of an hour take.
CREATE INDEX attempts_hour ON attempts (hour);
CREATE TABLE attempt_hours (hour INTEGER PRIMARY KEY, bytes INTEGER NOT NULL) STRICT;
"""
}
LATEST = _STEPS[-1].number


def migrations(dialect: str) -> Sequence[Migration]:
    """Return all steps in order, in the words of a database: `sqlite` or `postgresql`."""
    words = _DIALECTS[dialect]
    alone = _SQLITE if dialect == "sqlite" else {}
    return [
        each._replace(script=each.script.format(**words) + alone.get(each.number, ""))
        for each in _STEPS
    ]


def last_migration(rows: Callable[[str], Sequence[Row]], database: str, way_back: str = "") -> int:
    """
    Return the number of the last migration of a database that has one.

    Raises:
        StoreRefused: it takes a program that knows more of them than this one, or has no rows.
    """
    found = rows("SELECT number, oldest, program FROM migrations ORDER BY number DESC LIMIT 1")
    if not found:
        raise StoreRefused(
            f"{database} has tables without their rows, as a copy of the schema alone has. Restore "
            f"a whole copy{way_back}."
        )
    ((number, oldest, program),) = found
    if oldest > LATEST:
        raise StoreRefused(
            f"{database} was last used by a newer Pushgrid, and its schema can't be used by this "
            f"one ({VERSION}): it takes Pushgrid {program} or newer (schema {oldest}). "
            f"Install that{way_back}."
        )
    return int(number)
