"""`pushgrid serve`, once or more on one store; what it has stored is read past it."""

from __future__ import annotations

import subprocess
import time
from abc import abstractmethod
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from bench.soak.attacked_process import AttackedProcess
from bench.soak.ledger import digest, events_in
from bench.soak.soak_deployment import SoakDeployment
from bench.soak.traffic import SUBSCRIPTIONS, container_of


@dataclass(kw_only=True)
class ServerDeployment(SoakDeployment):
    """Running servers; attacks by statements are those of the first, which is the oldest."""

    servers: list[AttackedProcess]
    _seen: set[tuple[str, str]] = field(default_factory=set)

    # ── The servers ──

    @property
    def url(self) -> str:
        alive = [each for each in self.servers if not each.is_dead]
        return self.chance.choice(alive or self.servers).url

    @property
    def server(self) -> AttackedProcess:
        return self.servers[0]

    @property
    def process(self) -> subprocess.Popen[str]:
        return self.server.process

    @property
    def logged(self) -> Counter[str]:
        """How often an event was logged."""
        return sum((each.logged for each in self.servers), Counter())

    def start(self) -> None:
        """Start all, and wait until they are ready."""
        for each in self.servers:
            each.start()

    def kill(self) -> None:
        for each in self.servers:
            each.kill()

    def restart(self) -> None:
        dead = [each for each in self.servers if each.is_dead]
        for each in dead:
            each.start()
            self.servers.remove(each)
            self.servers.append(each)

    def kill_at(self, kind: str, side: str, place: int) -> None:
        """At a statement, or at a write or sync of a file; *kind* is that of `attacked_server`."""
        self.server.say("kill", kind, side, str(place))

    def calm(self) -> None:
        for each in self.servers:
            each.say("calm")

    # ── What they have stored ──

    @abstractmethod
    def rows(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Read."""

    def messages(self) -> int:
        ((found,),) = self.rows("SELECT COUNT(*) FROM messages")
        return int(found)

    def parked(self) -> int:
        """Return for how many pauses something waits."""
        ((found,),) = self.rows("SELECT COUNT(*) FROM parked")
        return int(found)

    def dead_letters(self, container: str) -> list[dict[str, Any]]:
        rows = self.rows("SELECT body FROM blobs WHERE container = ?", container)
        return [letter for (body,) in rows for letter in events_in(body)]

    def collect(self) -> None:
        names = {container_of(each): each for each in SUBSCRIPTIONS} | {"poison": "poison"}
        for container, path, body in self.rows("SELECT container, path, body FROM blobs"):
            if (container, path) in self._seen:
                continue
            self._seen.add((container, path))
            for found in events_in(body):
                if container == "poison":
                    self.ledger.end([("poison", digest(found["body"]))])
                else:
                    self.ledger.bury(names[container], found, time.time())
