"""Why a database can't be used, each with its remedy, and never with a password."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

import psycopg
import pytest
import trustme

from server import postgres_home
from server.postgres_home import PostgresHome
from server.store_url import PostgresOptions
from shared.adapters.sql.database import StoreRefused
from shared.adapters.sql.postgres import connecting
from shared.adapters.sql.postgres import database as database_module
from shared.adapters.sql.postgres.connecting import Connecting, read_url
from shared.adapters.sql.postgres.database import PostgresDatabase
from shared.adapters.threads import SystemThreads
from shared.clock import SystemClock
from shared.errors import StorageUnavailable
from shared.settings import Settings
from shared.watched_clock import WatchedClock
from testbed.postgres import (
    DATABASE,
    OWNER,
    PASSWORD,
    ROLE,
    PostgresServer,
    programs,
    running_pgbouncer,
    running_postgres,
)
from tests.functional.deployment import Logged
from tests.host.running import until
from tests.package_list import ROOT


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """Give a server that syncs its disk, as any has to."""
    with running_postgres() as server:
        server.stop()
        server.start("fsync=on")
        yield server


_SAID = {
    "password": "role or password is wrong, or the password is missing. Set it by",
    "no password": "role or password is wrong, or the password is missing. Set it by",
    "database": "there is no such database, or it admits nobody: CREATE DATABASE",
    "role": "there is no such role, or it may not log in: CREATE ROLE",
    "host": "its host has no address. Correct the name",
    "port": "nobody answers there. Start it, or correct host and port",
    "full": "it has no free connection. Raise max_connections, or the CONNECTION LIMIT",
    "nobody": "there is no such database, or it admits nobody",
    "not admitted": "the role may not connect to it: GRANT CONNECT ON DATABASE",
    "standby wanted": "not in hot standby mode. Correct the URL",
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
        "full": good.replace(f"//{ROLE}:", "//limited:"),
        "nobody": good.replace(f"/{DATABASE}", "/closed"),
        "not admitted": good.replace(f"/{DATABASE}", "/postgres"),
        "standby wanted": f"{good}?target_session_attrs=standby",
        "TLS": f"{good}?sslmode=require",
        "authority": f"{good}?sslmode=verify-full&sslrootcert=/missing",
    }[fault]


@pytest.fixture(scope="module")
def faulty(postgres: PostgresServer) -> PostgresServer:
    """Give the server, with a role and databases that admit nobody."""
    postgres.do(f"CREATE ROLE limited LOGIN PASSWORD '{PASSWORD}' CONNECTION LIMIT 0")
    postgres.do("CREATE DATABASE closed")
    postgres.do("ALTER DATABASE closed ALLOW_CONNECTIONS false")
    postgres.do("REVOKE CONNECT ON DATABASE postgres FROM PUBLIC")
    return postgres


@pytest.mark.parametrize("fault", _SAID)
def test_what_is_wrong_is_said_with_its_remedy(faulty: PostgresServer, fault: str) -> None:
    with pytest.raises(StoreRefused, match=_SAID[fault]) as refused:
        Connecting(read_url(_url(faulty, fault))).check()
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
    with pytest.raises(StoreRefused, match=r"synchronous_commit is off.*ALTER ROLE"):
        database.check()
    assert "--unsafe-store allows it" in str(database.check(allows_unsafe=True))
    assert Connecting(read_url(postgres.url())).check() is None


def test_a_crash_of_a_machine_that_would_lose_events_is_said() -> None:
    """It is refused but for that of a primary, whose standby is not waited for."""
    with running_postgres() as server:
        database = Connecting(read_url(server.url()))
        with pytest.raises(StoreRefused, match=r"fsync is off.*ALTER SYSTEM.*--unsafe-store"):
            database.check()
        assert "fsync is off" in str(database.check(allows_unsafe=True))
        server.stop()
        url = f"{server.url()}&options=-csynchronous_commit%3D"
        lax = {mode: Connecting(read_url(url + mode)) for mode in ("local", "remote_write")}
        server.start("fsync=on")
        assert lax["local"].check() is None  # there is no standby
        server.stop()
        server.start("fsync=on", "synchronous_standby_names=standby")
        for mode, each in lax.items():
            said = rf"standby's disk \(synchronous_commit is {mode}\).*ALTER ROLE"
            assert re.search(said, str(each.check()))
        assert "standby's disk" not in str(Connecting(read_url(server.url())).check())


def test_a_synchronous_standby_that_is_not_there_is_said() -> None:
    """No commit returns, which only the start would show; a role of no rights sees that much."""
    with running_postgres() as server, running_postgres(follows=server) as standby:
        server.stop()
        url = f"{server.url()}&options=-csynchronous_commit%3D"
        database = Connecting(read_url(server.url()))
        without = Connecting(read_url(f"{url}local"))
        server.start("fsync=on", "synchronous_standby_names=standby_1")
        until(lambda: database.check() is None)  # once it is connected again
        standby.stop()
        said = until(database.check)
        assert "publishers get 503. Start a standby" in said
        assert "'standby_1'" in said
        assert "503" not in str(without.check())


def test_an_unsafe_database_is_logged(postgres: PostgresServer, logged: Logged) -> None:
    name = postgres.new_database()
    postgres.do(f"ALTER ROLE {ROLE} IN DATABASE {name} SET synchronous_commit = off")
    connecting = Connecting(read_url(postgres.url(name)))
    with closing(PostgresDatabase(connecting, SystemThreads(), allows_unsafe=True)):
        pass
    (line,) = logged("storage.unsafe")
    assert "synchronous_commit is off" in str(line["detail"])


def test_a_database_in_any_encoding_is_served(postgres: PostgresServer) -> None:
    """In SQL_ASCII, the default of old clusters in the locale C, text would be bytes."""
    name = postgres.new_database("TEMPLATE template0 ENCODING SQL_ASCII LOCALE 'C'")
    connecting = Connecting(read_url(postgres.url(name)))
    with closing(PostgresDatabase(connecting, SystemThreads())) as database:
        database.processes.renew()


def test_a_pool_is_refused_unless_it_is_announced(postgres: PostgresServer) -> None:
    with running_pgbouncer(postgres) as pool:
        parameters = read_url(f"{pool}{DATABASE}")
        said = r"reached through a pooler, such as PgBouncer.*Start with --pooled"
        with pytest.raises(StoreRefused, match=said):
            Connecting(parameters).check()
        assert Connecting(parameters, prepares=False).check() is None


def test_statements_that_a_pool_mixes_up_name_it(
    postgres: PostgresServer,
    logged: Logged,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It gets a session that has its names."""
    monkeypatch.setattr(database_module, "check", lambda *_, **__: None)  # before there was a pool
    with running_pgbouncer(postgres) as pool, ExitStack() as stack:
        connecting = Connecting(read_url(f"{pool}{DATABASE}"))
        database = stack.enter_context(
            closing(PostgresDatabase(connecting, SystemThreads(), schema=postgres.new_schema()))
        )

        def write_often() -> None:
            asked = "SELECT value FROM state WHERE name = ?"
            for _ in range(7):
                assert database.write(lambda writing: writing.rows(asked, "run"))

        other = stack.enter_context(connecting.open())
        for number in range(20):
            other.execute(f"PREPARE _pg3_{number} AS SELECT 1".encode())
        with pytest.raises(StorageUnavailable):
            write_often()
        assert "Start with --pooled" in database.fault
    assert "Start with --pooled" in str(logged("storage.failed")[-1]["detail"])


@pytest.mark.parametrize("statement", ["SET x.y = 1", "EXECUTE what_is_not_there"])
def test_a_statement_that_was_another_or_none_names_the_pool(
    postgres: PostgresServer, statement: str
) -> None:
    """One without rows, or one that a session lacks."""
    connecting = Connecting(read_url(postgres.url()))
    with connecting.open() as connection, pytest.raises(psycopg.Error) as mixed_up:
        connection.execute(statement.encode()).fetchall()
    assert "Start with --pooled" in connecting.said(mixed_up.value)


# ── TLS ──


_WITH_TLS = 15


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PostgresServer, str]]:
    """
    Give a server that demands TLS, for the name localhost, and the file of its authority.

    It is Debian's: those of the package have no TLS.
    """
    if not (programs(_WITH_TLS) / "postgres").exists():
        pytest.skip(f"PostgreSQL {_WITH_TLS} of Debian is not installed")
    authority, folder = trustme.CA(), tmp_path_factory.mktemp("tls")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    with running_postgres(_WITH_TLS) as server:
        server.stop()
        server.demand_tls(authority.issue_cert("localhost"))
        server.start("ssl=on", "fsync=on")
        yield server, str(folder / "ca.pem")


@pytest.mark.parametrize(
    ("host", "mode", "said"),
    [
        ("localhost", "sslmode=verify-full&sslrootcert={}", None),
        ("127.0.0.1", "sslmode=require", None),
        ("127.0.0.1", "sslmode=disable", "add sslmode=verify-full to the URL if it demands TLS"),
        ("127.0.0.1", "sslmode=verify-full&sslrootcert={}", "name the host as in its certificate"),
        ("localhost", "sslmode=verify-full&sslrootcert=system", "none that is trusted"),
    ],
)
def test_a_server_that_demands_tls(
    secure: tuple[PostgresServer, str], host: str, mode: str, said: str | None
) -> None:
    server, authority = secure
    at = f"postgresql://{ROLE}:{PASSWORD}@{host}:{server.port}/{DATABASE}?{mode.format(authority)}"
    connecting = Connecting(read_url(at))
    if said is None:
        assert connecting.check() is None
        return
    with pytest.raises(StoreRefused, match=said) as refused:
        connecting.check()
    assert PASSWORD not in refused.value.message


# ── Rights ──


@pytest.mark.parametrize(("oldest", "newest"), [(99, 99), (1, 13)])
def test_a_version_that_was_not_tested_is_refused(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, oldest: int, newest: int
) -> None:
    monkeypatch.setattr(connecting, "OLDEST", oldest)
    monkeypatch.setattr(connecting, "NEWEST", newest)
    with pytest.raises(StoreRefused, match=f"use one from {oldest} to {newest}"):
        Connecting(read_url(postgres.url())).check()


def test_a_role_that_may_make_no_schema_is_told_so(postgres: PostgresServer) -> None:
    postgres.do("DROP ROLE IF EXISTS poor")
    postgres.do("CREATE ROLE poor LOGIN")
    url = postgres.url().replace(f"//{ROLE}@", "//poor@")
    with pytest.raises(StoreRefused, match="GRANT CREATE ON DATABASE"):
        PostgresDatabase(Connecting(read_url(url)), SystemThreads(), schema=postgres.new_schema())


def test_a_schema_of_another_role_is_refused_and_one_made_for_it_is_used(
    postgres: PostgresServer,
) -> None:
    foreign, own = postgres.new_schema(), postgres.new_schema()
    postgres.do(f"CREATE SCHEMA {foreign}", DATABASE)
    postgres.do(f"CREATE SCHEMA {own} AUTHORIZATION {ROLE}", DATABASE)
    connecting = Connecting(read_url(postgres.url()))
    with pytest.raises(StoreRefused, match="or another role owns it"):
        PostgresDatabase(connecting, SystemThreads(), schema=foreign)
    PostgresDatabase(connecting, SystemThreads(), schema=own).close()


def test_a_server_whose_database_fails_as_it_begins_says_so(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, logged: Logged
) -> None:
    """By a sentence, and not by a traceback; and meanwhile that it waits."""
    monkeypatch.setattr(postgres_home, "_SLOW_SECONDS", 0.1)
    url = postgres.url(name := postgres.new_database())
    PostgresDatabase(Connecting(read_url(url)), SystemThreads()).close()
    clock = WatchedClock(SystemClock().now, time.monotonic)
    options = PostgresOptions(read_url(url))
    home = PostgresHome(options, Settings(storage={}), clock, SystemThreads())
    with postgres.connected(database=name) as other:
        other.execute("BEGIN")
        other.execute("LOCK TABLE pushgrid.attempt_days")
        with pytest.raises(StoreRefused, match=rf"{name}.*has failed.*such as a dump.*Try again"):
            asyncio.run(home.open(lambda *_: None, lambda _: True))
    (line,) = logged("storage.waiting")
    assert name in str(line["detail"])


def test_the_script_of_the_containers_makes_all_that_servers_need() -> None:
    with running_postgres() as server:
        server.do(f"DROP DATABASE {DATABASE}")
        server.do(f"DROP ROLE {ROLE}")
        at = {"PGHOST": str(server.folder), "PGPORT": str(server.port), "POSTGRES_USER": OWNER}
        found = f"{programs()}:{os.environ['PATH']}"
        given = {**at, "PATH": found, "PUSHGRID_DATABASE_PASSWORD": "it's"}
        subprocess.run([ROOT / "docker/postgres-role.sh"], env=given, check=True)
        rights = "SELECT rolsuper, rolcreatedb, rolcreaterole FROM pg_roles WHERE rolname = "
        assert server.do(f"{rights}'{ROLE}'") == [(False, False, False)]
        url = f"postgresql://{ROLE}:it%27s@127.0.0.1:{server.port}/{DATABASE}"
        database = Connecting(read_url(url))
        PostgresDatabase(database, SystemThreads(), allows_unsafe=True).close()
