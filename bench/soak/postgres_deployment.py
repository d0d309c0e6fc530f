"""Servers on one PostgreSQL, which may have a standby, PgBouncer or a proxy before it."""

from __future__ import annotations

import random
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import psycopg

from bench.soak.attacked_process import AttackedProcess
from bench.soak.attacked_server import AHEAD, LEASES
from bench.soak.ledger import DELIVERIES
from bench.soak.server_deployment import ServerDeployment
from bench.soak.soak_deployment import SETTINGS, wait_until
from shared.adapters.sql.dialects import MOST_NUMBER, NUMBER_BITS
from shared.adapters.sql.store import ACCOUNT
from testbed.places import ServedDatabase
from testbed.postgres import (
    DATABASE,
    ROLE,
    PostgresServer,
    running_pgbouncer,
    running_postgres,
)
from testbed.serving import server_settings
from testbed.subscriber import running_subscriber
from testbed.tcp_proxy import TcpProxy

SHORTER = 0.2  # leases of a server: 6 s; it is judged dead after 9 s
_STARTS_IN = 60.0  # seconds
#: Deliveries of a message that are not settled. One without any is a step of a replay.
_OPEN = (
    "COALESCE(NULLIF(COALESCE((SELECT SUM(deliveries) FROM pushgrid.parts WHERE message = id), 0)"
    " + COALESCE((SELECT SUM(CAST(value ->> 2 AS BIGINT))"
    f" FROM json_array_elements(CAST(counts AS JSON))), 0), 0), {DELIVERIES})"
)
#: Notes, as a process is judged dead or takes another number, what may come again for that: what is
#: its own no more as the transaction ends.
_NOTES = (
    "CREATE TABLE IF NOT EXISTS soak (deliveries BIGINT NOT NULL)",
    f"""
    CREATE OR REPLACE FUNCTION soak() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN
      INSERT INTO pushgrid.soak SELECT COALESCE(SUM({_OPEN}), 0) FROM pushgrid.messages
      WHERE run BETWEEN NEW.id << {NUMBER_BITS} AND (NEW.id << {NUMBER_BITS})
      + CASE WHEN NEW.dead THEN {MOST_NUMBER} ELSE NEW.number - 1 END;
      RETURN NULL;
    END $$
    """,
    """
    CREATE CONSTRAINT TRIGGER soak AFTER UPDATE ON processes DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.dead <> OLD.dead OR NEW.number <> OLD.number) EXECUTE FUNCTION soak()
    """,
)


class PostgresStage(NamedTuple):
    """
    What servers on PostgreSQL have.

    *leases* shortens theirs, *ahead* are the seconds by which the clock of each is ahead. *standby*
    is ``synchronous`` or ``asynchronous``; *has_proxy*: on the way of the first server.
    """

    leases: float = SHORTER
    ahead: tuple[float, ...] = (0.0, 0.0)
    is_pooled: bool = False
    has_proxy: bool = False
    standby: str = ""

    @contextmanager
    def deployed(self, chance: random.Random) -> Iterator[PostgresDeployment]:
        """Run them on a PostgreSQL of their own."""
        with ExitStack() as stack:
            database = stack.enter_context(running_postgres())
            databases = [database]
            if self.standby:
                databases.append(stack.enter_context(running_postgres(follows=database)))
            hosts = ",".join(str(each.folder) for each in databases)
            ports = ",".join(str(each.port) for each in databases)
            url = f"postgresql://{ROLE}@/{DATABASE}?host={hosts}&port={ports}"
            proxy = None
            urls = [url for _ in self.ahead]
            if self.has_proxy:
                proxy = TcpProxy(lambda: _connected(database))
                stack.callback(proxy.close)
                urls[0] = f"postgresql://{ROLE}@127.0.0.1:{proxy.port}/{DATABASE}"
            if self.is_pooled:
                pool = stack.enter_context(running_pgbouncer(database))
                urls = [f"{pool}{DATABASE}" for _ in urls]
            made = PostgresDeployment(
                chance=chance,
                account=ACCOUNT,
                servers=[
                    AttackedProcess(
                        options=("--unsafe-store", "--store", each, *["--pooled"] * self.is_pooled),
                        settings=server_settings(
                            **SETTINGS, **{LEASES: str(self.leases), AHEAD: str(ahead)}
                        ),
                    )
                    for each, ahead in zip(urls, self.ahead, strict=True)
                ],
                databases=databases,
                leases=self.leases,
                proxy=proxy,
                is_synchronous=self.standby == "synchronous",
                _place=ServedDatabase(f"{url}&target_session_attrs=read-write"),
            )
            hook = stack.enter_context(running_subscriber(made.answer)).url
            stack.callback(made.kill)
            made.start()
            for each in _NOTES:
                made.rows(each)
            made.begin(hook, lambda name: f"{hook}/{name}")
            with made.traffic.running():
                yield made


@dataclass(kw_only=True)
class PostgresDeployment(ServerDeployment):
    """Running servers; *databases* are the primary and perhaps its standby."""

    databases: list[PostgresServer]
    leases: float
    proxy: TcpProxy | None
    is_synchronous: bool
    _place: ServedDatabase

    @property
    def database(self) -> PostgresServer:
        return self.databases[0]

    def rows(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Read, also while no connection is free for a moment."""
        for _ in range(10):
            with suppress(psycopg.OperationalError):
                return self._place.rows(statement, *parameters)
            time.sleep(1)
        return self._place.rows(statement, *parameters)

    @property
    def doubled(self) -> int:
        """Those of messages that processes had when they were judged dead, or left behind."""
        ((found,),) = self.rows("SELECT COALESCE(SUM(deliveries), 0) FROM soak")
        return int(found)

    def repeatable(self) -> int:
        """None: what a killed server had is noted as it is judged dead."""
        return 0

    def calm(self) -> None:
        super().calm()
        if self.proxy:
            self.proxy.cuts = lambda *_: None

    # ── The standby ──

    def follow(self) -> None:
        """Have a standby, which commits wait for if it is synchronous."""
        primary, standby = self.databases
        if not standby.is_running:
            shutil.rmtree(standby.data)
            standby.make_standby(primary)
        if self.is_synchronous:
            primary.stop()
            primary.start("synchronous_standby_names=*")
        wanted = "SELECT COUNT(*) FROM pg_stat_replication WHERE state = 'streaming'"
        wait_until(lambda: primary.do(wanted) == [(1,)], _STARTS_IN)

    def fail_over(self) -> int:
        """Promote the standby of a dead primary; return how many deliveries were open there."""
        self.databases.reverse()
        counted = f"SELECT COALESCE(SUM({_OPEN}), 0) FROM pushgrid.messages"
        ((found,),) = self.database.do(counted, DATABASE)
        self.database.promote()
        return int(str(found))


def _connected(database: PostgresServer) -> socket.socket:
    """Connect to its socket, where no password is asked for."""
    made = socket.socket(socket.AF_UNIX)
    made.connect(str(database.folder / f".s.PGSQL.{database.port}"))
    return made
