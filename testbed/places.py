"""Where a server keeps everything: a folder, or a database. What it stores is read beside it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import apsw
import psycopg

from shared.adapters.sql.postgres.connecting import SCHEMA
from shared.adapters.sql.postgres.transaction import numbered
from shared.adapters.sql.sqlite.folder import DATABASE

Rows = list[tuple[Any, ...]]
_LOCKED_MS = 60_000


class ServedPlace(Protocol):
    """A place of one server, or of several."""

    @property
    def options(self) -> Sequence[str]:
        """What tells `pushgrid serve`."""

    def rows(self, statement: str, *parameters: object) -> Rows:
        """Run a statement whose parameters are ``?``."""


@dataclass(frozen=True, slots=True)
class ServedFolder:
    """Implements `ServedPlace`: a test's folder may be in memory."""

    data: Path

    @property
    def options(self) -> Sequence[str]:
        return "--data", str(self.data), "--unsafe-folder"

    def rows(self, statement: str, *parameters: object) -> Rows:
        """What is in the WAL stays there."""
        with closing(apsw.Connection(str(self.data / DATABASE))) as other:
            other.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            other.set_busy_timeout(_LOCKED_MS)
            return list(other.execute(statement, parameters))


@dataclass(frozen=True, slots=True)
class ServedDatabase:
    """Implements `ServedPlace`: a database of PostgreSQL's, by its *url*."""

    url: str

    @property
    def options(self) -> Sequence[str]:
        return "--unsafe-store", "--store", self.url

    def rows(self, statement: str, *parameters: object) -> Rows:
        with psycopg.connect(self.url, cursor_factory=psycopg.RawCursor, autocommit=True) as other:
            other.execute(f"SET search_path = {SCHEMA}".encode())
            cursor = other.execute(numbered(statement), parameters or None)
            return cursor.fetchall() if cursor.description else []
