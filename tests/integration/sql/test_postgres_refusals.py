"""Why a database can't be used, each with its remedy, and never with a password."""

from __future__ import annotations

import pytest

from shared.adapters.sql import migrations
from shared.adapters.sql.migrations import Migration
from shared.adapters.sql.postgres import connecting
from shared.adapters.sql.postgres import database as database_module
from shared.adapters.sql.postgres.connecting import Connecting, PostgresRefused, read_url
from shared.adapters.sql.postgres.database import PostgresDatabase
from tests.integration.sql.databases import Schema
from tests.postgres_server import DATABASE, PASSWORD, ROLE, PostgresServer

_SAID = {
    "password": "role or password is wrong, or the password is missing. Set it by",
    "no password": "role or password is wrong, or the password is missing. Set it by",
    "database": "there is no such database: CREATE DATABASE",
    "role": "there is no such role, or it may not log in: CREATE ROLE",
    "host": "its host has no address. Correct the name",
    "port": "nobody answers there. Start it, or correct host and port",
    "TLS": r"TLS is demanded \(sslmode\), and the server has none.*Turn it on \(ssl = on\)",
    "authority": r"TLS is demanded \(sslmode\).*name its authority with sslrootcert",
}


def _url(server: PostgresServer, fault: str) -> str:
    good = f"postgresql://{ROLE}:{PASSWORD}@127.0.0.1:{server.port}/{DATABASE}"
    return {
        "password": good.replace(PASSWORD, "wrong-secret"),
        "no password": good.replace(f":{PASSWORD}", ""),
        "database": good.replace(f"/{DATABASE}", "/missing"),
        "role": f"postgresql://missing@/{DATABASE}?host={server.folder}&port={server.port}",
        "host": good.replace("127.0.0.1", "missing.invalid"),
        "port": good.replace(str(server.port), "1"),
        "TLS": f"{good}?sslmode=require",
        "authority": f"{good}?sslmode=verify-full&sslrootcert=/missing",
    }[fault]


@pytest.mark.parametrize("fault", _SAID)
def test_what_is_wrong_is_said_with_its_remedy(postgres: PostgresServer, fault: str) -> None:
    with pytest.raises(PostgresRefused, match=_SAID[fault]) as refused:
        Connecting(read_url(_url(postgres, fault))).check()
    said = refused.value.message
    assert PASSWORD not in said
    assert "wrong-secret" not in said


def test_of_several_hosts_one_has_to_be_there(postgres: PostgresServer) -> None:
    hosts = f"127.0.0.1:1,127.0.0.1:{postgres.port}"
    Connecting(read_url(f"postgresql://{ROLE}:{PASSWORD}@{hosts}/{DATABASE}")).check()


def test_a_database_that_does_not_wait_for_its_disk_is_refused(postgres: PostgresServer) -> None:
    name = postgres.new_database()
    postgres.do(f"ALTER ROLE {ROLE} IN DATABASE {name} SET synchronous_commit = off")
    database = Connecting(read_url(postgres.url(name)))
    with pytest.raises(PostgresRefused, match=r"synchronous_commit is off.*ALTER ROLE"):
        database.check()
    database.check(allows_async=True)


@pytest.mark.parametrize(("oldest", "newest"), [(99, 99), (1, 13)])
def test_a_version_that_was_not_tested_is_refused(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, oldest: int, newest: int
) -> None:
    monkeypatch.setattr(connecting, "OLDEST", oldest)
    monkeypatch.setattr(connecting, "NEWEST", newest)
    with pytest.raises(PostgresRefused, match=f"use one from {oldest} to {newest}"):
        Connecting(read_url(postgres.url())).check()


def test_a_role_that_may_make_no_schema_is_told_so(postgres: PostgresServer) -> None:
    postgres.do("DROP ROLE IF EXISTS poor")
    postgres.do("CREATE ROLE poor LOGIN")
    url = postgres.url().replace(f"//{ROLE}@", "//poor@")
    with pytest.raises(PostgresRefused, match="GRANT CREATE ON DATABASE"):
        PostgresDatabase(Connecting(read_url(url)), schema=postgres.new_schema())


# ── Versions of the schema ──


_MORE = Migration(2, 1, "9.9", "CREATE TABLE more (a {number}) {table};")
_OTHER = Migration(3, 3, "9.9", "DROP TABLE more;")


def _steps(monkeypatch: pytest.MonkeyPatch, *more: Migration) -> None:
    monkeypatch.setattr(migrations, "_STEPS", (migrations._STEPS[0], *more))
    monkeypatch.setattr(database_module, "LATEST", 1 + len(more))


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
    with pytest.raises(PostgresRefused, match=r"it takes Pushgrid 9\.9 or newer"), schema.store():
        pass


def test_a_step_that_fails_leaves_what_was_there(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = Schema(postgres)
    with schema.store():
        pass
    _steps(monkeypatch, _MORE._replace(script="DELETE FROM state;\nSELECT missing;"))
    with pytest.raises(PostgresRefused, match="missing"), schema.store():
        pass
    assert schema.do("SELECT COUNT(*) FROM state") == [(3,)]
