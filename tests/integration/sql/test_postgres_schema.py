"""The schema on PostgreSQL comes up to date beside servers that run, and refuses those too old."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from threading import Event
from time import sleep
from typing import Any

import pytest

from shared.adapters.sql import migrations
from shared.adapters.sql.database import Catalogue, StoreRefused, WriteOptions, WriteTransaction
from shared.adapters.sql.migrations import Migration
from shared.adapters.sql.postgres import transaction as transactions
from shared.adapters.sql.postgres.connecting import Connecting, read_url
from shared.adapters.sql.postgres.connections import reading
from shared.adapters.sql.postgres.database import PostgresDatabase
from shared.adapters.sql.postgres.schema import migrate
from shared.adapters.sql.postgres.store import PostgresStore
from shared.adapters.sql.postgres.transaction import Transaction
from shared.adapters.threads import SystemThreads
from shared.errors import StorageUnavailable
from testbed.postgres import ROLE, PostgresServer, running_postgres
from tests.functional.deployment import Logged
from tests.integration.sql.databases import Schema, id_of


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """Give a server that syncs its disk, as any has to."""
    with running_postgres() as server:
        server.stop()
        server.start("fsync=on")
        yield server


_MORE = Migration(2, 1, "9.9", "CREATE TABLE more (a {number}) {table};")
_OTHER = Migration(3, 3, "9.9", "DROP TABLE more;")


def _steps(monkeypatch: pytest.MonkeyPatch, *more: Migration) -> None:
    monkeypatch.setattr(migrations, "_STEPS", (migrations._STEPS[0], *more))
    monkeypatch.setattr(migrations, "LATEST", 1 + len(more))


def test_a_schema_is_used_by_the_programs_that_it_names(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two versions side by side, until the newer one says otherwise."""
    schema = Schema(postgres)
    with schema.store():
        pass
    with monkeypatch.context() as newer:
        _steps(newer, _MORE)
        with schema.store():
            assert schema.do("SELECT * FROM more") == []
    with schema.store(), monkeypatch.context() as newer:
        _steps(newer, _MORE, _OTHER)
        with schema.store():
            pass
    with pytest.raises(StoreRefused, match=r"it takes Pushgrid 9\.9 or newer"), schema.store():
        pass


def test_two_that_begin_at_once_where_there_is_nothing_both_run(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one waits until the first has made the tables, and then sees them."""
    schema, begun = Schema(postgres), Event()
    lock = Transaction.lock_catalogue

    def slow(transaction: Transaction, catalogue: Catalogue) -> None:
        lock(transaction, catalogue)
        if not begun.is_set():
            begun.set()
            while not schema.do("SELECT 1 FROM pg_locks WHERE NOT granted"):
                sleep(0.01)

    def start() -> None:
        with schema.store():
            pass

    monkeypatch.setattr(Transaction, "lock_catalogue", slow)
    with ThreadPoolExecutor() as threads:
        first = threads.submit(start)
        assert begun.wait(60)
        second = threads.submit(start)
        first.result(60)
        second.result(60)
    assert schema.do("SELECT COUNT(*) FROM processes") == [(2,)]


def test_a_step_that_fails_leaves_what_was_there(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = Schema(postgres)
    with schema.store():
        before = schema.do("SELECT * FROM state ORDER BY name")
    _steps(monkeypatch, _MORE._replace(script="DELETE FROM state;\nSELECT missing;"))
    with pytest.raises(StoreRefused, match="missing"), schema.store():
        pass
    assert before
    assert schema.do("SELECT * FROM state ORDER BY name") == before


# ── Beside those who hold the tables ──


_WIDER = Migration(2, 1, "9.9", "ALTER TABLE messages ADD COLUMN note {text};")


class Pauses(SystemThreads):
    """Calls what is to be done in each pause, in place of waiting; only these take time."""

    def __init__(self, at_pause: Callable[[], object]) -> None:
        super().__init__(lambda: self.passed)
        self.passed = 0.0
        self._at_pause = at_pause

    def sleep(self, seconds: float) -> None:
        self.passed += seconds
        self._at_pause()


def test_beside_a_dump_a_migration_keeps_servers_waiting_for_moments_only(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, logged: Logged
) -> None:
    """Between its tries they store; and it goes on once the dump has ended."""
    schema = Schema(postgres)
    with schema.store() as running, postgres.connected(ROLE) as dump:
        database = running.database
        dump.execute("BEGIN")
        dump.execute(f"LOCK TABLE {schema.name}.messages IN ACCESS SHARE MODE".encode())

        def at_pause() -> None:
            database.write(lambda writing: writing.run("DELETE FROM messages"))
            if len(logged("store.migration_waits")) == 2:
                dump.execute("COMMIT")

        _steps(monkeypatch, _WIDER)
        with schema.store(threads=Pauses(at_pause)):
            assert schema.do("SELECT note FROM messages") == []
    assert len(logged("store.migration_waits")) == 2


def test_beside_a_server_that_stands_still_in_a_group_a_migration_ends_its_session(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other may be there to find it dead; and it would keep the tables for good."""
    silent = transactions.END_SILENT
    monkeypatch.setattr(transactions, "END_SILENT", silent.replace("5000", "0"))
    schema, begun, go_on = Schema(postgres), Event(), Event()

    def stop(writing: WriteTransaction) -> None:
        writing.run("DELETE FROM messages")
        begun.set()
        go_on.wait(60)

    with schema.store() as still, ThreadPoolExecutor() as threads:
        stopped = threads.submit(still.database.write, stop)
        try:
            assert begun.wait(60)
            _steps(monkeypatch, _WIDER)
            with schema.store(threads=Pauses(lambda: None)):
                assert schema.do("SELECT note FROM messages") == []
        finally:
            go_on.set()
        assert isinstance(stopped.exception(), StorageUnavailable)


def test_a_migration_gives_up_after_a_minute_and_says_who_holds_the_tables(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = Schema(postgres)
    with schema.store():
        pass
    _steps(monkeypatch, _WIDER)
    threads = Pauses(lambda: None)
    # So that the test itself does not take long.
    monkeypatch.setattr("shared.adapters.sql.postgres.schema._LOCKED_MS", 1)
    with postgres.connected(ROLE) as dump:
        dump.execute("BEGIN")
        dump.execute(f"LOCK TABLE {schema.name}.messages IN ACCESS SHARE MODE".encode())
        with (
            pytest.raises(StoreRefused, match=r"such as a dump"),
            schema.store(threads=threads),
        ):
            pass
    assert 57 <= threads.passed <= 63


def test_a_start_with_nothing_to_migrate_waits_for_nobody(postgres: PostgresServer) -> None:
    """Such as for a commit that waits for its standby, and holds the catalogue."""
    schema = Schema(postgres)
    with schema.store() as running, ExitStack() as stack:

        def write(_: object) -> None:
            stack.enter_context(schema.store(threads=Pauses(lambda: pytest.fail("it waits"))))

        running.database.write(write, WriteOptions(catalogue=Catalogue.SHARED))


def test_where_the_tables_have_gone_it_is_said_what_to_do(postgres: PostgresServer) -> None:
    schema = Schema(postgres)
    with schema.store() as store:
        schema.do(f"ALTER SCHEMA {schema.name} RENAME TO {schema.name}_gone")
        with pytest.raises(StorageUnavailable):
            store.database.write(lambda writing: writing.run("DELETE FROM messages"))
        fault = store.database.fault
        schema.do(f"ALTER SCHEMA {schema.name}_gone RENAME TO {schema.name}")
    assert "no server has made its tables yet. Start one" in fault


# ── Those too old ──


_EXCLUDES = Migration(2, 2, "9.9", "CREATE TABLE more (a {number}) {table};")


def test_a_server_that_runs_under_a_schema_that_excludes_it_stores_and_pushes_nothing(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its readiness says which version it takes; the newer server runs."""
    schema = Schema(postgres)
    with schema.store() as older, monkeypatch.context() as newer:
        older.database.processes.renew()
        assert older.database.has_lease
        _steps(newer, _EXCLUDES)
        with schema.store() as other:
            newer.undo()
            for _ in range(2):
                with pytest.raises(StorageUnavailable):
                    older.database.processes.renew()
                assert "takes Pushgrid 9.9 or newer" in older.database.fault
                assert not older.database.has_lease
            _steps(newer, _EXCLUDES)
            other.database.processes.renew()
            alive = schema.do("SELECT id FROM processes WHERE NOT dead")
            assert alive == [(id_of(other),)]


@pytest.mark.parametrize("is_start", [False, True])
def test_a_migration_that_excludes_servers_waits_for_what_they_have_under_way(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, *, is_start: bool
) -> None:
    """Their transactions, which have looked whether they live, and their starts."""
    schema = Schema(postgres)
    with schema.store() as older, postgres.connected(ROLE) as under_way:
        process = older.database._process
        under_way.execute("BEGIN")
        under_way.execute(f"SET search_path = {schema.name}".encode())
        under_way.execute(b"SELECT check_alive(%s, %s)", [process.id, process.number])
        if is_start:
            under_way.execute("ROLLBACK")
            under_way.execute("BEGIN")
            under_way.execute(f"SET search_path = {schema.name}".encode())
            under_way.execute("INSERT INTO processes VALUES (1, 1, 0, 1, '')")
        _steps(monkeypatch, _EXCLUDES)
        paused: list[int] = []

        def at_pause() -> None:
            paused.append(1)
            under_way.execute("COMMIT")

        with schema.store(threads=Pauses(at_pause)) as newer:
            assert paused
            alive = schema.do("SELECT id FROM processes WHERE NOT dead")
            assert alive == [(id_of(newer),)]


def test_a_start_that_a_migration_overtakes_is_refused(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has found the schema of before, and is a process after it."""
    schema = Schema(postgres)
    with schema.store():
        pass

    def overtaken(*given: Any) -> None:
        migrate(*given)
        schema.do("INSERT INTO migrations (number, oldest, program) VALUES (2, 2, '9.9')")

    monkeypatch.setattr("shared.adapters.sql.postgres.database.migrate", overtaken)
    with pytest.raises(StoreRefused, match=r"takes Pushgrid 9\.9 or newer"), schema.store():
        pass


# ── What is looked at before a start ──


def start(connecting: Connecting) -> None:
    threads = SystemThreads()
    with closing(PostgresDatabase(connecting, threads)) as database:
        PostgresStore(database, threads=threads)


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("REVOKE CREATE ON DATABASE {0} FROM {0}", "GRANT CREATE ON DATABASE"),
        ("CREATE SCHEMA pushgrid", "or another role owns it"),
        (
            "GRANT pg_read_all_data, pg_write_all_data TO {0};GRANT ALL ON SCHEMA pushgrid TO {0}",
            "or another role owns it",
        ),
        ("GRANT pushgrid TO {0};ALTER TABLE pushgrid.messages OWNER TO admin", "or another role"),
        ("GRANT CREATE ON DATABASE {0} TO {0}", None),
        ("CREATE SCHEMA pushgrid AUTHORIZATION {0}", None),
    ],
)
def test_a_check_says_what_a_start_would_without_a_change(
    postgres: PostgresServer, before: str, said: str | None
) -> None:
    name = postgres.new_database()
    postgres.do(f"CREATE ROLE {name} LOGIN")
    if "all_data" in before or "TABLE" in before:
        PostgresDatabase(Connecting(read_url(postgres.url(name))), SystemThreads()).close()
    postgres.do(before.format(name), name)
    there = "SELECT nspname, (SELECT COUNT(*) FROM pg_class) FROM pg_namespace ORDER BY 1"
    found = postgres.do(there, name)
    connecting = Connecting(read_url(postgres.url(name).replace(f"//{ROLE}@", f"//{name}@")))
    if said:
        with pytest.raises(StoreRefused, match=said):
            connecting.check()
        assert postgres.do(there, name) == found
        with pytest.raises(StoreRefused, match=said):
            start(connecting)
    else:
        assert connecting.check() is None
        assert postgres.do(there, name) == found
        start(connecting)
        assert connecting.check() is None


def test_who_looks_at_or_reads_a_schema_that_is_too_new_is_refused(
    postgres: PostgresServer,
) -> None:
    name = postgres.new_database()
    connecting = Connecting(read_url(postgres.url(name)))
    PostgresDatabase(connecting, SystemThreads()).close()
    with reading(connecting) as read:
        assert read(lambda reading: reading.rows("SELECT number FROM migrations")) == [(1,)]
    postgres.do("INSERT INTO pushgrid.migrations VALUES (2, 2, '9.9')", name)
    with pytest.raises(StoreRefused, match=r"takes Pushgrid 9\.9 or newer"):
        connecting.check()
    with pytest.raises(StoreRefused, match=r"takes Pushgrid 9\.9 or newer"), reading(connecting):
        pass
