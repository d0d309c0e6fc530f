"""`pushgrid serve` on a folder, whose faults can be chosen; what it stores is read past it."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from bench.soak.attacked_process import AttackedProcess
from bench.soak.ledger import DELIVERIES
from bench.soak.server_deployment import ServerDeployment
from bench.soak.soak_deployment import SETTINGS
from shared.adapters.sql.sqlite.folder import DATABASE
from shared.adapters.sql.store import ACCOUNT
from testbed.serving import server_settings
from testbed.subscriber import running_subscriber

#: Deliveries of what the last start has in hand: of messages that are as they were stored, and of
#: others. A message without any is a step of a replay.
_IN_HAND = (
    "SELECT (SELECT SUM(deliveries) FROM parts WHERE message = id), counts FROM messages"
    " WHERE run = (SELECT value FROM state WHERE name = 'run')"
)


class _AsNamed(apsw.VFS):
    """Opens files by the names that are given: SQLite would follow ``/proc/…/root``."""

    name = "as named"

    def __init__(self) -> None:
        super().__init__(self.name, "")

    def xFullPathname(self, name: str) -> str:  # noqa: N802 - SQLite's name
        return name


_AS_NAMED = _AsNamed()


def disk_of(folder: Path, size: str) -> list[str]:
    """Return what begins a program whose *folder* is a disk of its own, without being root."""
    mount = f'mount -t tmpfs -o size={size},mode=700 none "{folder}" && exec "$@"'
    return ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh"]


def can_have_disk() -> bool:
    """Tell whether this system lets a program have a small disk of its own."""
    if not shutil.which("unshare"):
        return False
    with tempfile.TemporaryDirectory() as folder:
        tried = [*disk_of(Path(folder), "1m"), "true"]
        return subprocess.run(tried, check=False, capture_output=True).returncode == 0


class SqliteStage(NamedTuple):
    """What a server has; *disk*: the size of a disk of its own, which is gone when it ends."""

    disk: str | None = None
    settings: Mapping[str, str] = {}

    @contextmanager
    def deployed(self, chance: random.Random) -> Iterator[SqliteDeployment]:
        """Run it on a folder of its own."""
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            server = AttackedProcess(
                options=("--unsafe-folder", "--data", str(folder / "data")),
                settings=server_settings(**SETTINGS, **self.settings),
                before=disk_of(folder, self.disk) if self.disk else (),
            )
            made = SqliteDeployment(
                chance=chance,
                account=ACCOUNT,
                servers=[server],
                folder=folder,
                has_disk=self.disk is not None,
            )
            hook = stack.enter_context(running_subscriber(made.answer)).url
            stack.callback(made.kill)
            made.start()
            made.begin(hook, lambda name: f"{hook}/{name}")
            with made.traffic.running():
                yield made


@dataclass(kw_only=True)
class SqliteDeployment(ServerDeployment):
    """A running server; its data are in *folder*, which may be a *disk* of its own."""

    folder: Path
    has_disk: bool

    @property
    def disk(self) -> Path:
        """The folder as the server sees it."""
        inside = Path(f"/proc/{self.process.pid}/root") if self.has_disk else Path("/")
        return inside / self.folder.relative_to("/")

    def open(self, flags: int) -> apsw.Connection:
        """Open the database beside the server; what is in its WAL stays there."""
        opened = apsw.Connection(str(self.disk / "data" / DATABASE), flags, _AS_NAMED.name)
        opened.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        opened.set_busy_timeout(60_000)
        return opened

    def rows(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Read; whatever is left of a server that was killed stays as it is."""
        with closing(self.open(apsw.SQLITE_OPEN_READONLY)) as reader:
            return reader.execute(statement, parameters).fetchall()

    def repeatable(self) -> int:
        """Those of parts that are in hand and not settled."""
        found = 0
        for deliveries, counts in self.rows(_IN_HAND):
            stored = sum(part[2] for part in json.loads(counts)) if counts else 0
            found += (deliveries or 0) + stored or DELIVERIES
        return found
