"""Stores ARM documents in tables: a row each, its text split over several properties."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from azure.core.exceptions import HttpResponseError

from shared import telemetry
from shared.adapters.azure_storage.clients import StorageClients
from shared.adapters.azure_storage.errors import (
    create_if_missing,
    has_code,
    none_if_code,
    storage_errors,
)
from shared.adapters.azure_storage.metrics import TOTALS
from shared.engine.ports import Document, Resource, Table
from shared.errors import Conflict, InvalidDocument, StorageUnavailable

if TYPE_CHECKING:
    from azure.data.tables import TableEntity

T = TypeVar("T")

_PART_CHARACTERS = 32 * 1024  # UTF-16 units: 64 KiB, all that a property can hold
_DOCUMENT_CHARACTERS = 500_000  # leaves some of an entity's 1 MiB to its keys and names
_TABLES = (
    Table.EVENT_SUBSCRIPTIONS,
    Table.ENDPOINT_HEALTH,
    Table.REPLAYS,
    Table.TOPICS,
)  # in order
_MADE_AGAIN = (Table.ENDPOINT_HEALTH, Table.REPLAYS)  # also alone
_HAVE_ROWS_LATER = (Table.EVENT_SUBSCRIPTIONS, TOTALS)  # not before there is a topic
_TAKEN = ("EntityAlreadyExists", "UpdateConditionNotSatisfied", "ResourceNotFound")
_NO_TABLE = "TableNotFound"
_DELETED = 204
_KEY = re.compile(r"[^/\\#?\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,500}")


class StorageResources:
    """
    ResourceStore on Azure tables.

    The first put of a new deployment makes them all; until then they are empty. A table that is
    missing later is an outage. Those of endpoint health and of replays are made again.
    """

    def __init__(self, account: StorageClients) -> None:
        self._account = account

    def get(self, table: Table, partition: str, name: str) -> Resource | None:
        if not _are_keys(partition, name):
            return None
        client = self._account.table(table)
        with storage_errors():
            entity = self._none_if_new(
                table,
                lambda: none_if_code(
                    lambda: client.get_entity(partition.lower(), name.lower()), "ResourceNotFound"
                ),
            )
        return None if entity is None else _resource(entity, _etag(entity))

    def put(
        self, table: Table, partition: str, name: str, document: Document, etag: str | None
    ) -> Resource:
        from azure.core import MatchConditions
        from azure.data.tables import UpdateMode

        if not _are_keys(partition, name):
            raise ValueError(f"'{partition}' and '{name}' can't be keys of a table")
        client = self._account.table(table)
        entity = _entity(partition, name, document)

        def write() -> Mapping[str, Any]:
            if etag is None:
                return client.create_entity(entity)
            return client.update_entity(
                entity, UpdateMode.REPLACE, etag=etag, match_condition=MatchConditions.IfNotModified
            )

        with storage_errors():
            try:
                answer = create_if_missing(write, lambda: self._make(table), _NO_TABLE)
            except HttpResponseError as error:
                if not has_code(error, *_TAKEN):
                    raise
                found = self.get(table, partition, name)
                if found is None or found.document != _resource(entity, "").document:
                    raise Conflict from error
                return found
        return _resource(entity, str(answer["etag"]))

    def delete(self, table: Table, partition: str, name: str, etag: str | None = None) -> bool:
        from azure.core import MatchConditions

        if not _are_keys(partition, name):
            return False
        client = self._account.table(table)
        statuses: list[int] = []  # the SDK does not tell whether there was an entity
        with storage_errors():
            none_if_code(
                lambda: client.delete_entity(
                    partition.lower(),
                    name.lower(),
                    raw_response_hook=lambda answer: statuses.append(
                        answer.http_response.status_code
                    ),
                    etag=etag,
                    match_condition=MatchConditions.IfNotModified if etag else None,
                ),
                _NO_TABLE,
                "UpdateConditionNotSatisfied",
                "ResourceNotFound",
            )
        return statuses[-1:] == [_DELETED]

    def list(self, table: Table, partition: str) -> Sequence[Resource]:
        if not _are_keys(partition):
            return []
        client, values = self._account.table(table), {"partition": partition.lower()}
        wanted = "PartitionKey eq @partition"
        return self._all(table, partial(client.query_entities, wanted, parameters=values))

    def list_all(self, table: Table) -> Sequence[Resource]:
        return self._all(table, self._account.table(table).list_entities)

    def _all(self, table: Table, query: Callable[[], Iterable[TableEntity]]) -> Sequence[Resource]:
        with storage_errors():
            entities = self._none_if_new(table, lambda: tuple(query()))
        return [_resource(entity, _etag(entity)) for entity in entities or ()]

    def _none_if_new(self, table: Table, act: Callable[[], T]) -> T | None:
        """Act; return ``None`` if the table has not been made yet."""
        try:
            return act()
        except HttpResponseError as error:
            if not has_code(error, _NO_TABLE):
                raise
        return act() if self._was_made_meanwhile(table) else None

    def _make(self, table: Table) -> None:
        """Make a missing table, with all others: which is made last tells that all were made."""
        if self._was_made_meanwhile(table):
            return
        for each in [table] if table in _MADE_AGAIN else _TABLES:
            none_if_code(self._account.table(each).create_table, "TableAlreadyExists")

    def _was_made_meanwhile(self, table: Table) -> bool:
        """
        Tell whether a table that was missing is there now; if not, it has not been made yet.

        Raises:
            StorageUnavailable: it was made once, and is gone.
        """
        if table in _MADE_AGAIN:
            return False
        if self._row_of(_TABLES[-1]) is None and not any(map(self._row_of, _HAVE_ROWS_LATER)):
            return False
        # All tables were made. The missing one is looked for after that, since another process
        # may have made them between the caller's request and this one.
        if self._row_of(table) is None:
            telemetry.error("table.missing", table=table)
            raise StorageUnavailable
        return True

    def _row_of(self, table: str) -> Sequence[Any] | None:
        """Return at most one row of a table; ``None`` if the table is missing."""
        rows = self._account.table(table).list_entities(results_per_page=1)
        return none_if_code(lambda: tuple(islice(rows, 1)), _NO_TABLE)


def _are_keys(*texts: str) -> bool:
    """Tell whether *texts* are legal keys; others name no row, so storage is not asked."""
    return all(_KEY.fullmatch(text) for text in texts)


def _entity(partition: str, name: str, document: Document) -> dict[str, str]:
    # ASCII: a character is one UTF-16 unit, and lone surrogates survive.
    text = json.dumps(document, separators=(",", ":"))
    if len(text) > _DOCUMENT_CHARACTERS:
        raise InvalidDocument(f"The document is larger than {_DOCUMENT_CHARACTERS} characters.")
    parts = range(0, len(text), _PART_CHARACTERS)
    return {"PartitionKey": partition.lower(), "RowKey": name.lower()} | {
        _part(number): text[start : start + _PART_CHARACTERS] for number, start in enumerate(parts)
    }


def _resource(entity: Mapping[str, Any], etag: str) -> Resource:
    """Return the document of a row, or why it has none."""
    document, fault = {}, ""
    try:
        document = json.loads(_text(entity))
    except (ValueError, TypeError, RecursionError) as error:
        fault = f"the row holds no JSON document: {error}"
    if not isinstance(document, dict):
        document, fault = {}, f"the row holds {type(document).__name__} instead of an object"
    return Resource(name=entity["RowKey"], document=document, etag=etag, fault=fault)


def _etag(entity: TableEntity) -> str:
    return str(entity.metadata["etag"])


def _text(entity: Mapping[str, Any]) -> str:
    parts: list[str] = []
    while (part := entity.get(_part(len(parts)))) is not None:
        parts.append(part)
    return "".join(parts)


def _part(number: int) -> str:
    return f"document{number or ''}"
