"""Documents and the log of attempts in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any

from pushgrid.testing.memory.faults import MemoryPort, Seam, at_once, request
from shared.clip import clip
from shared.clock import Deadline
from shared.delivery.attempt_record import AttemptRecord
from shared.engine.ports import ALL_ATTEMPTS, AttemptChoice, Chance, Resource, Table
from shared.errors import Conflict, InvalidDocument

MAX_DOCUMENT = 500_000  # characters, about as many as a row can have


class MemoryResources(MemoryPort):
    """ResourceStore."""

    port = "documents"

    def __init__(self, seam: Seam = at_once, chance: Chance | None = None) -> None:
        super().__init__(seam, chance)
        self._rows: dict[tuple[Table, str, str], Resource] = {}

    @request
    def get(self, table: Table, partition: str, name: str) -> Resource | None:
        return self._rows.get((table, partition.lower(), name.lower()))

    @request
    def put(
        self, table: Table, partition: str, name: str, document: Mapping[str, Any], etag: str | None
    ) -> Resource:
        if set(partition + name) & set("/\\#?\0"):
            raise ValueError(f"'{partition}' and '{name}' can't be keys of a table")
        key = (table, partition.lower(), name.lower())
        there = self._rows.get(key)
        if (there and there.etag) != etag:
            if there and there.document == json.loads(json.dumps(document)):
                return there
            raise Conflict
        text = json.dumps(document)
        if len(text) > MAX_DOCUMENT:
            raise InvalidDocument
        # A copy: nobody changes what is stored from outside.
        return self._keep(key, json.loads(text))

    def damage(self, table: Table, partition: str, name: str, document: object = None) -> None:
        """Write over a row from outside; what is no JSON object leaves it without a document."""
        self._keep((table, partition.lower(), name.lower()), document)

    def _keep(self, key: tuple[Table, str, str], document: object) -> Resource:
        fault = "" if isinstance(document, dict) else "no document"
        self._rows[key] = Resource(
            name=key[2],
            document=document if isinstance(document, dict) else {},
            etag=self._chance.id(),
            fault=fault,
        )
        return self._rows[key]

    @request
    def delete(self, table: Table, partition: str, name: str, etag: str | None = None) -> bool:
        key = (table, partition.lower(), name.lower())
        there = self._rows.get(key)
        if there is None or etag not in (None, there.etag):
            return False
        del self._rows[key]
        return True

    @request
    def list(self, table: Table, partition: str) -> Sequence[Resource]:
        place, rows = partition.lower(), self._rows
        names = sorted(name for of, where, name in rows if where == place and of is table)
        return [rows[table, place, name] for name in names]

    @request
    def list_all(self, table: Table) -> Sequence[Resource]:
        return [self._rows[key] for key in sorted(self._rows) if key[0] is table]


class MemoryAttempts(MemoryPort):
    """AttemptLog, and the reading of it."""

    port = "attempts"

    def __init__(self, seam: Seam = at_once, chance: Chance | None = None) -> None:
        super().__init__(seam, chance)
        self.writes: list[int] = []  # how many records each write had
        self._rows: dict[tuple[Any, ...], AttemptRecord] = {}

    @property
    def records(self) -> list[AttemptRecord]:
        """Return what is stored, by event and attempt."""
        return [self._rows[key] for key in sorted(self._rows)]

    @request
    def write(self, records: Sequence[AttemptRecord]) -> None:
        self.writes.append(len(records))
        for each in records:
            hour = each.published_at.replace(minute=0, second=0, microsecond=0)
            key = (hour, each.system_id, each.number, each.outcome is None)
            self._rows[(each.topic.lower(), each.subscription.lower(), *key)] = each.clipped

    @request
    def delete_before(self, day: date, deadline: Deadline) -> int:
        del deadline
        old = {key: key[2].date() for key in self._rows if key[2].date() < day}
        for key in old:
            del self._rows[key]
        return len(set(old.values()))

    @request
    def read(
        self,
        topic: str,
        subscription: str,
        since: datetime,
        chosen: AttemptChoice = ALL_ATTEMPTS,
    ) -> Iterator[Sequence[AttemptRecord]]:
        first = since.replace(minute=0, second=0, microsecond=0)
        wanted_id = chosen.event_id and clip(chosen.event_id)
        keys = [
            key
            for key in sorted(self._rows)
            if key[:2] == (topic.lower(), subscription.lower()) and key[2] >= first
        ]
        days: list[Sequence[AttemptRecord]] = []
        for day in sorted({key[2].date() for key in keys}, reverse=True):
            found = [self._rows[key] for key in keys if key[2].date() == day]
            if wanted := [
                each
                for each in found
                if wanted_id in {None, each.event_id}
                and (chosen.since is None or each.at >= chosen.since)
                and chosen.replay_of in {None, each.replay_of}
            ]:
                days.append(wanted)
        return iter(days)
