"""Plays a plan: processes on one store, publishers, operators and endpoints, in simulated time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any, NamedTuple

from shared.adapters.sql.database import micros
from shared.engine.ports import Queue
from shared.engine.timers.waiting_events import read_offsets, unfinished_events
from tests.simulation.callers import PUBLISHER_WAITS, Callers
from tests.simulation.endpoints import Endpoints
from tests.simulation.host import PERIODS
from tests.simulation.kernel import Kernel, Stuck
from tests.simulation.ledger import Finding, Ledger
from tests.simulation.plan import DAY, Plan, Step
from tests.simulation.processes import Processes
from tests.simulation.storage import Storage, Storm

LATE = 7200.0  # seconds after its time for which a message may be left
QUIET = 2400.0  # seconds after the last message, in which what is counted becomes right
HEALED = 1000.0  # seconds after which all processes run, and every event is taken
RETENTION = 16 * DAY  # seconds after which nothing is kept


class Result(NamedTuple):
    """What a simulation has shown."""

    plan: Plan
    findings: Sequence[Finding]
    promised: int  # deliveries
    seconds: float  # of simulated time
    seen: Counter[str]  # what occurred
    digest: str  # of all effects
    story: Sequence[tuple[float, str, frozenset[int]]]

    @property
    def kinds(self) -> set[str]:
        return {each.kind for each in self.findings}


class World:
    """All that there is in one simulation; it *tells* its story."""

    make_ledger: Callable[..., Ledger] = Ledger
    make_processes: Callable[..., Processes] = Processes

    def __init__(self, plan: Plan, *, tells: bool = False) -> None:
        self._plan, seed = plan, plan.seed
        self.kernel = kernel = Kernel(Random(f"turns {seed}"), shuffles=plan.shuffles)
        self._seen = Counter[str]()
        given = [each for each in plan.steps if each.what == "storm"]
        storms = [Storm(since=each.at, **each.args) for each in given]
        self.storms = storms
        weather = Random(f"weather {seed}")
        self.ledger = self.make_ledger(kernel, plan, tells=tells)
        self._endpoints = Endpoints(kernel, Random(f"endpoints {seed}"), self._seen)
        self.processes = processes = self.make_processes(
            plan, kernel, self.ledger, self._endpoints, self._seen, Random(f"processes {seed}")
        )
        self.storage = processes.storage = Storage(
            kernel, self.ledger, storms, weather, self._seen, processes.between, processes.shown
        )
        self.ledger.store = self.storage.store
        chance = Random(f"callers {seed}")
        self._callers = Callers(kernel, processes, self.ledger, chance, self._seen)
        self._players: tuple[Any, ...] = (self._callers, processes, self._endpoints)

    @classmethod
    def told(cls, step: Step) -> str:
        """Return a step as it is played."""
        return f"{step.what} {step.args}"

    def play(self) -> Result:
        """Play the plan, and judge it."""
        try:
            self._play()
        except Stuck as error:
            self.ledger.find("stuck", str(error))
        return Result(
            plan=self._plan,
            findings=self.ledger.findings,
            promised=sum(each.is_promised for each in self.ledger.entries.values()),
            seconds=self.kernel.now,
            seen=self._seen + self.ledger.seen,
            digest=self.ledger.digest.hexdigest(),
            story=self.ledger.story or (),
        )

    def _play(self) -> None:
        """Play the plan to the end, when no message is left or it takes too long."""
        kernel, plan = self.kernel, self._plan
        self.processes.begin()
        for step in plan.steps:
            if step.what != "storm":
                player = next(each for each in self._players if hasattr(each, step.what))
                kernel.at(step.at, partial(getattr(player, step.what), **step.args))
        kernel.at(plan.heals_at, self._heal)
        last = max([plan.heals_at + HEALED, *(each.at for each in plan.steps)])
        kernel.run(last + 2 * PUBLISHER_WAITS)
        while not self._is_quiet() and not self._is_late() and kernel.now < plan.ends_at:
            kernel.run(kernel.now + 300)
        kernel.run(kernel.now + (RETENTION if plan.is_long else 0))
        self.processes.always_fires = True
        # Half a period after a run: none of a timer is under way then.
        shortest, longest = min(PERIODS.values()), max(PERIODS.values())
        kernel.run((kernel.now + QUIET) // longest * longest + longest + shortest / 2)
        self._find_left()
        self.ledger.close()

    def _heal(self) -> None:
        self.ledger.note("all is well from now on")
        self.processes.heal()
        self.kernel.at(self.kernel.now + HEALED, self._callers.publish_to_all)
        self._callers.resume_all()

    def _is_late(self) -> bool:
        latest = micros(self.storage.clock.now() - timedelta(seconds=LATE))
        return any(due < latest for due, _ in self._messages())

    def _is_quiet(self) -> bool:
        return not self._messages() and self.processes.is_idle() and not self._callers.open

    def _find_left(self) -> None:
        for _, text in self._messages():
            self.ledger.find("left", text)
        for text in self.processes.close():
            self.ledger.find("unheard", text)
        for key, each in self._unfinished().items():
            self.ledger.find("left", f"counted as unfinished: {key} {each}")
        if self._plan.is_long and (payloads := self._payloads()):
            self.ledger.find("left", f"payloads {sorted(payloads)}")

    def _messages(self) -> Sequence[tuple[int, str]]:
        """Return when each is due, in microseconds, and what it is."""
        stored = self.storage.store.queues.stored
        return [(micros(each.visible_at), f"message on {q}") for q in Queue for each in stored[q]]

    def _unfinished(self) -> Mapping[Any, Any]:
        store = self.storage.store
        return unfinished_events(store.counts.totals(), read_offsets(store.documents))

    def _payloads(self) -> Collection[Any]:
        return self.storage.store.payloads.blobs
