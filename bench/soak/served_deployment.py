"""`pushgrid serve` on a folder, whose faults can be chosen; what it stores is read past it."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from bench.soak.ledger import DELIVERIES, digest, events_in
from bench.soak.soak_deployment import SETTINGS, SoakDeployment
from bench.soak.traffic import SUBSCRIPTIONS, container_of
from shared.adapters.sql.folder import DATABASE
from shared.adapters.sql.store import ACCOUNT
from testbed.serving import OPTIONS, server_settings
from testbed.subscriber import running_subscriber

ROOT = Path(__file__).parents[2]
_START_SECONDS = 120.0
_END_SECONDS = 60.0  # after SIGTERM
_KEPT_LINES = 20_000
_EVENT = re.compile(r'"event":"([^"]+)"')
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


class ServedStage(NamedTuple):
    """What a server has; *disk*: the size of a disk of its own, which is gone when it ends."""

    disk: str | None = None
    settings: Mapping[str, str] = {}

    @contextmanager
    def deployed(self, chance: random.Random) -> Iterator[ServedDeployment]:
        """Run it on a folder of its own."""
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            made = ServedDeployment(
                chance=chance,
                account=ACCOUNT,
                folder=folder,
                _disk=self.disk,
                _settings=server_settings(**SETTINGS, **self.settings),
            )
            hook = stack.enter_context(running_subscriber(made.answer)).url
            stack.callback(made.kill)
            made.start()
            made.begin(hook, lambda name: f"{hook}/{name}")
            with made.traffic.running():
                yield made


@dataclass(kw_only=True)
class ServedDeployment(SoakDeployment):
    """A running server; its data are in *folder*."""

    folder: Path
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=_KEPT_LINES))
    logged: Counter[str] = field(default_factory=Counter)  # by the event
    _disk: str | None
    _settings: dict[str, str]
    _process: subprocess.Popen[str] = field(init=False)
    _is_ready: threading.Event = field(init=False)
    _url: str = "http://127.0.0.1:9"
    _seen: set[tuple[str, str]] = field(default_factory=set)

    # ── The server ──

    @property
    def url(self) -> str:
        return self._url

    @property
    def process(self) -> subprocess.Popen[str]:
        return self._process

    def begin_start(self) -> None:
        """Start the server; see `wait_until_ready`."""
        begin = disk_of(self.folder, self._disk) if self._disk else []
        options = (*OPTIONS, "--unsafe-folder", "--data", str(self.folder / "data"))
        self._process = subprocess.Popen(
            [*begin, sys.executable, "-m", "bench.soak.attacked_server", *options],
            cwd=ROOT,
            env={**os.environ, **self._settings},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # Ctrl-C in a terminal reaches this process alone
        )
        self._is_ready = threading.Event()  # or has ended
        given = self._process, self._is_ready
        threading.Thread(target=self._read, args=given, daemon=True).start()

    def start(self) -> None:
        """Start the server, and wait until it is ready."""
        self.begin_start()
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """
        Wait for a server that was started.

        Raises:
            RuntimeError: it has ended; the message has its last lines.
        """
        self._is_ready.wait(_START_SECONDS)
        if self._process.poll() is not None:
            last = "\n".join([*self.lines][-20:])
            raise RuntimeError(f"the server has ended with {self._process.returncode}:\n{last}")

    def _read(self, process: subprocess.Popen[str], is_ready: threading.Event) -> None:
        for line in process.stdout or ():
            self.lines.append(line.rstrip("\n"))
            if found := _EVENT.search(line):
                self.logged[found[1]] += 1
            if line.startswith("ready "):
                self._url = line.split()[1]
                is_ready.set()
        process.wait()
        is_ready.set()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):  # of a line that it has not read
                if pipe:
                    pipe.close()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def restart(self) -> None:
        if self._process.poll() is not None:
            self.start()

    def end_in_order(self, number: int) -> int:
        """Send a signal; return the exit code."""
        self._process.send_signal(number)
        return self._process.wait(_END_SECONDS)

    def kill_at(self, kind: str, side: str, place: int) -> None:
        """At a statement, or at a write or sync of a file; *kind* is that of `attacked_server`."""
        self._say("kill", kind, side, str(place))

    def fail(self, kind: str, times: int) -> None:
        """Let the next syncs of that kind fail."""
        self._say("fail", kind, str(times))

    def calm(self) -> None:
        self._say("calm")

    def _say(self, *words: str) -> None:
        with suppress(OSError, ValueError):  # it has ended
            if self._process.stdin:
                self._process.stdin.write("\t".join(words) + "\n")
                self._process.stdin.flush()

    # ── What it has stored ──

    @property
    def disk(self) -> Path:
        """The folder as the server sees it."""
        inside = Path(f"/proc/{self._process.pid}/root") if self._disk else Path("/")
        return inside / self.folder.relative_to("/")

    def open(self, flags: int) -> apsw.Connection:
        """Open the database beside the server; what is in its WAL stays there."""
        opened = apsw.Connection(str(self.disk / "data" / DATABASE), flags, _AS_NAMED.name)
        opened.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        opened.set_busy_timeout(60_000)
        return opened

    def _rows(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Read; whatever is left of a server that was killed stays as it is."""
        with closing(self.open(apsw.SQLITE_OPEN_READONLY)) as reader:
            return reader.execute(statement, parameters).fetchall()

    def repeatable(self) -> int:
        """Those of parts that are in hand and not settled."""
        found = 0
        for deliveries, counts in self._rows(_IN_HAND):
            stored = sum(part[2] for part in json.loads(counts)) if counts else 0
            found += (deliveries or 0) + stored or DELIVERIES
        return found

    def messages(self) -> int:
        ((found,),) = self._rows("SELECT COUNT(*) FROM messages")
        return int(found)

    def parked(self) -> int:
        """Return for how many pauses something waits."""
        ((found,),) = self._rows("SELECT COUNT(*) FROM parked")
        return int(found)

    def dead_letters(self, container: str) -> list[dict[str, Any]]:
        rows = self._rows("SELECT body FROM blobs WHERE container = ?", container)
        return [letter for (body,) in rows for letter in events_in(body)]

    def collect(self) -> None:
        names = {container_of(each): each for each in SUBSCRIPTIONS} | {"poison": "poison"}
        for container, path, body in self._rows("SELECT container, path, body FROM blobs"):
            if (container, path) in self._seen:
                continue
            self._seen.add((container, path))
            for found in events_in(body):
                if container == "poison":
                    self.ledger.end([("poison", digest(found["body"]))])
                else:
                    self.ledger.bury(names[container], found, time.time())
