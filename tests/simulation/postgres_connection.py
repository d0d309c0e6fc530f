"""What several servers have of psycopg: a connection to the simulated PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

from psycopg import OperationalError, ProgrammingError

from tests.simulation.kernel import Strand
from tests.simulation.postgres_session import Session
from tests.simulation.rows import Row

if TYPE_CHECKING:
    from tests.simulation.postgres_server import PlayedPostgres


class Cursor:
    """A statement that is sent, and what it returns."""

    __slots__ = ("_connection", "parameters", "rowcount", "rows", "statusmessage", "text")

    def __init__(self, connection: Connection, text: str, parameters: Sequence[Any]) -> None:
        self._connection, self.text, self.parameters = connection, text, parameters
        self.rows: list[Row] | None = None
        self.rowcount, self.statusmessage = -1, ""

    @property
    def verb(self) -> str:
        return self.text.partition(" ")[0]

    @property
    def begins(self) -> bool:
        return self.text.startswith("BEGIN")

    @property
    def writes(self) -> bool:
        return self.begins and "READ WRITE" in self.text

    def fetchall(self) -> list[Row]:
        self._connection.flush()
        if self.rows is None:
            raise ProgrammingError("the last operation didn't produce records")
        return self.rows

    def fetchone(self) -> Row | None:
        return next(iter(self.fetchall()), None)


class Connection:
    """What a server has of psycopg's connection."""

    adapters = SimpleNamespace(register_dumper=lambda *_: None)
    info = SimpleNamespace(server_version=160_000, backend_pid=1)
    prepare_threshold = 5

    def __init__(self, server: PlayedPostgres, session: Session) -> None:
        self._server, self.session = server, session
        self.closed = False
        self._is_cut, self._is_pipeline = False, False
        self._asks: Strand | None = None
        self._pending: list[Cursor] = []
        self._handlers: list[Callable[[Any], object]] = []
        self.add_notice_handler = self._handlers.append

    def execute(self, statement: bytes | str, parameters: Sequence[Any] | None = None) -> Cursor:
        text = statement.decode() if isinstance(statement, bytes) else statement
        cursor = Cursor(self, text, parameters or ())
        self._pending.append(cursor)
        if not self._is_pipeline:
            self.flush()
        return cursor

    @contextmanager
    def pipeline(self) -> Iterator[None]:
        self._is_pipeline = True
        try:
            yield
            self.flush()
        finally:
            self._is_pipeline, self._pending = False, []

    def flush(self) -> None:
        """Send what waits, and wait for the answer."""
        sent, self._pending = self._pending, []
        if self.closed:
            raise OperationalError("the connection is closed")
        if sent:
            try:
                self._server.request(self, sent)
            except OperationalError as error:
                self.closed = self.closed or not error.sqlstate
                raise

    def pause(self, seconds: float) -> None:
        """Wait for the answer, unless the connection is cut."""
        kernel = self._server.kernel
        if seconds:
            self._asks = kernel.current
            kernel.wait(lambda: self._is_cut, kernel.now + seconds)
        if self._is_cut or not self.session.is_open:
            self.lose()

    def lose(self) -> None:
        """Raises OperationalError: the connection has ended."""
        self.close()
        raise OperationalError("server closed the connection unexpectedly")

    def warn(self) -> None:
        said = SimpleNamespace(sqlstate="01000", severity_nonlocalized="WARNING")
        for each in self._handlers:
            each(said)

    def fileno(self) -> int:
        """Be cut: nobody else asks for this."""
        self._server.seen["a connection is cut that hangs"] += 1
        self._is_cut = True
        if self._asks:
            self._server.kernel.ready(self._asks)
        raise OperationalError("simulated")

    def close(self) -> None:
        self.closed = True
        if self.session.has_no_more:
            self.session.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
