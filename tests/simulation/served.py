"""Plays `pushgrid serve` on a database: processes that claim, settle and park."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from contextvars import copy_context
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

from pushgrid.testing.memory import MemoryStore
from server.home import Home
from server.worker import Worker
from shared.app import App, BackgroundWork
from shared.engine.ports import DeadLetters, Queue
from shared.engine.timers.waiting_events import tallies
from shared.errors import InvalidSettings
from shared.settings import AttemptLogging, Settings
from shared.subscriptions.subscription import SubscriptionKey
from shared.telemetry import lines_to
from shared.watched_clock import WatchedClock
from tests.simulation.kernel import Pool, Process, Threads
from tests.simulation.ledger import Ledger
from tests.simulation.mirror import Mirror
from tests.simulation.plan import Step
from tests.simulation.processes import Death, Instance, Processes, settings_of
from tests.simulation.served_ledger import TOLD, ServedLedger
from tests.simulation.world import Result, World

LOSES_POWER = 0.4  # of the kills
IN_ORDER = 0.25  # of the ends that a plan names
STARTS_AGAIN = 5.0  # seconds after it has ended by itself
TIMERS = {"deadletter_timer", "wake_timer"}
WAITED_FOR = 70.0  # seconds after SIGTERM: twice as long as an end takes
AIMED = 5  # statements of these at most, before the one that is hit


class ServedHost:
    """Runs an app as `serve` does: on a home, with its pusher and its own work."""

    def __init__(
        self,
        app: App,
        process: Process,
        home: Home,
        *,
        rests: int,
        is_worth: Callable[[], bool],  # whether a timer's run has work
        ended: Callable[[str], object],
    ) -> None:
        self._process, self._home = process, home
        self._rests, self._is_worth, self._ended = rests, is_worth, ended
        self._worker = Worker(app, home, Threads(process), as_here=self._as_here)
        self.is_ready, self._has_begun = False, False

    @property
    def open(self) -> int:
        return self._worker.under_way if self._has_begun else 0

    def begin(self) -> None:
        loop = self._process.loop
        loop.call_soon(lambda: loop.create_task(self._run()))

    def put(self, queue: Queue, visible_at: datetime) -> None:
        """Do nothing: another account has no queues."""

    async def _run(self) -> None:
        try:
            await self._worker.open()
        except InvalidSettings as error:
            self._ended(f"does not start: {error.message}")
            return
        self._worker.begin()
        self.is_ready = self._has_begun = True
        self._ended(f"can't go on: {await self._home.broken()}")

    def end(self) -> None:
        """Begin to end in order, as the server does after SIGTERM."""
        self.is_ready = False
        loop = self._process.loop
        loop.call_soon(lambda: loop.create_task(self._end()))

    async def _end(self) -> None:
        await self._worker.finish()
        await self._worker.store()
        await self._worker.close()
        self._ended("ends in order")

    def _as_here(self, work: BackgroundWork) -> BackgroundWork:
        """Return work that is done more rarely, and a timer's only if it is worth it."""
        if work.name in TIMERS:
            work = work._replace(call=partial(self._fire, work))
        return work._replace(period=work.period * self._rests)

    def _fire(self, timer: BackgroundWork) -> bool:
        return self._is_worth() and timer.call()


class ServedProcesses(Processes):
    """Processes that serve."""

    idle = 900.0
    aims: Sequence[str]  # at what kills are aimed
    machine: Mirror[Any]
    ledger: ServedLedger

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.ledger = self._ledger  # type: ignore[assignment]

    def begin(self) -> None:
        for slot in range(self._plan.processes):
            self.slots.append(self._new(slot, 0.0))
            self.slots[slot].host.begin()

    def any(self) -> Instance | None:
        """Return one that answers; of one folder, it has it, or had it last."""
        found = [each for each in self.slots if each.process.is_alive and _host(each).is_ready]
        return self._chance.choice(found) if len(found) > 1 else next(iter(found), None)

    def kill(
        self, process: int, requests: int, down: float, again: int, skew: float, *, aim: str = ""
    ) -> None:
        slot = process % len(self.slots)
        if self._hears(slot) and self._chance.random() < IN_ORDER:
            self._tell_to_end(slot, Death(10**9, down, again, skew))
            return
        aim = aim or self._chance.choice(self.aims)
        super().kill(slot, requests % AIMED if aim else requests, down, again, skew, aim=aim)

    def _hears(self, slot: int) -> bool:
        return self.slots[slot].is_well and _host(self.slots[slot]).is_ready

    def _tell_to_end(self, slot: int, death: Death) -> None:
        instance = self.slots[slot]
        self.ledger.fault(instance.process, TOLD)
        instance.death = death
        _host(instance).end()
        later = partial(self._die, slot, instance, "while it ends")
        self._kernel.at(self._kernel.now + WAITED_FOR, later)

    def freeze(self, process: int, seconds: float, before: str) -> None:
        super().freeze(process % len(self.slots), seconds, before and "COMMIT")

    def is_struck(self, process: Process, statement: Collection[str], when: str) -> bool:
        return self._is_struck(*self._by_name[process.name], statement, when)

    def strike(self, process: Process, where: str) -> None:
        slot, instance = self._by_name[process.name]
        instance.death = instance.death or Death(0, STARTS_AGAIN, 2, 0)
        self._die(slot, instance, where)

    def _ends(self, name: str, why: str) -> None:
        slot, instance = self._by_name[name]
        self._seen[f"ends itself: {why.partition(':')[0]}"] += 1
        self._leave(instance.process, loses_power=False)
        death = instance.death or Death(0, STARTS_AGAIN, 0, 0)
        self._bury(slot, instance, death, f"ends itself: {self._told(why)}")

    def _told(self, why: str) -> str:
        return why

    def _die(self, slot: int, instance: Instance, where: str) -> None:
        if instance.death and instance.process.is_alive:
            loses_power = self._chance.random() < LOSES_POWER
            self._leave(instance.process, loses_power=loses_power)
            where += ", since the power fails" if loses_power else ""
        super()._die(slot, instance, where)

    def _leave(self, process: Process, *, loses_power: bool) -> None:
        """Let the store notice that a process is gone, perhaps with its machine."""
        raise NotImplementedError

    def _new(self, slot: int, skew: float) -> Instance:
        name, wrong = f"p{slot}.{len(self._by_name)}", [skew]
        with lines_to(partial(self.ledger.hear, name)):
            process = Process(self._kernel, name, copy_context())
        clock = WatchedClock(self._wall(wrong), process.loop.time, awaits_storage=True)
        self.storage.clocks[name] = SimpleNamespace(storage_answered=lambda *_: None)  # type: ignore[assignment]
        self._ledger.began(process, 0.0, lambda: clock.is_trusted)
        elsewhere = self.storage.store.of(name, Pool(process, most=1_000_000)).dead_letters
        settings = replace(
            settings_of(self._plan.settings),
            attempt_log=AttemptLogging.ALL,
            own_account=MemoryStore.account,
        )
        home = self._home(process, settings, clock, elsewhere)
        draws = Random(f"draws {name} {self._plan.seed}")
        app = self._compose(process, clock, settings, lambda: home.store, draws)
        host = ServedHost(
            app,
            process,
            home,
            rests=60 if self._plan.is_long else 1,
            is_worth=self._has_work,
            ended=partial(self._ends, name),
        )
        instance = Instance(process, clock, app, host, wrong)  # type: ignore[arg-type]
        self._by_name[name] = (slot, instance)
        return instance

    def _wall(self, skew: list[float]) -> Callable[[], datetime]:
        del skew
        return self.storage.clock.now

    def _home(
        self, process: Process, settings: Settings, clock: WatchedClock, elsewhere: DeadLetters
    ) -> Home:
        raise NotImplementedError

    def _has_work(self) -> bool:
        now, ran_at = self._kernel.now, self._ran_at
        is_due = self.machine.due(Queue.DEADLETTERS, self.storage.clock.now())
        if is_due or self.always_fires or now - ran_at["deadletter"] >= 3600:
            ran_at["deadletter"] = now
            return True
        return False


def _host(instance: Instance) -> ServedHost:
    return cast("ServedHost", instance.host)


class ServedWorld(World):
    """All that there is in a simulation of a server."""

    make_ledger: Callable[..., Ledger] = ServedLedger
    make_machine: type[Any]  # a `Mirror`
    unused: Collection[str]  # arguments of steps that say nothing here

    @classmethod
    def told(cls, step: Step) -> str:
        args = {name: each for name, each in step.args.items() if name not in cls.unused}
        if step.what == "storm":
            args["kind"] = cls.make_machine.storms_here[args["kind"]].name
        return super().told(step._replace(args=args))

    def play(self) -> Result:
        with tempfile.TemporaryDirectory(prefix="pushgrid-", ignore_cleanup_errors=True) as name:
            self.ledger.store = self.ledger.stored  # type: ignore[attr-defined]
            self.machine = self.processes.machine = self.make_machine(  # type: ignore[attr-defined]
                Path(name),
                self.kernel,
                self.ledger,
                self.storms,
                Random(f"machine {self._plan.seed}"),
                self._seen,
                self.processes.is_struck,  # type: ignore[attr-defined]
                self.processes.strike,  # type: ignore[attr-defined]
            )
            try:
                return super().play()
            finally:
                self.machine.close()

    def _heal(self) -> None:
        super()._heal()
        # A pause that its operator had to repeat while the server was down is over, too.
        self.kernel.at(self.kernel.now + 400, self._callers.resume_all)

    def _messages(self) -> Sequence[tuple[int, str]]:
        rows = self.machine.rows["messages"].values()
        return [(row[2], f"message {row[:8]}") for row in rows]

    def _find_left(self) -> None:
        super()._find_left()
        rows = self.machine.rows
        waited_for = {
            (topic, name, pause) for _, topic, name, _, pause in rows["documents"].values()
        }
        for table in ("parts", "message_payloads", "parked"):
            for row in rows[table].values():
                if table != "parked" or row[1:] not in waited_for:
                    self.ledger.find("left", f"{table} {row}")

    def _unfinished(self) -> Mapping[Any, Any]:
        """Return where more was matched than has ended: both are stored with what they count."""
        totals = self.processes.slots[0].app.store.counts.totals()
        found = {}
        for key, each in tallies(totals).items():
            left = each.matched - each.ended
            if left > 0 and not (left == each.awaiting_blob and self._may_lack(key)):
                found[key] = each
        return found

    def _may_lack(self, key: SubscriptionKey) -> bool:
        """Tell whether ends in dead letters were counted by a process alone that was killed."""
        return self.ledger.may_lack_ends(key.subscription.lower())  # type: ignore[attr-defined, no-any-return]

    def _payloads(self) -> Collection[Any]:
        return list(self.machine.rows["payloads"])
