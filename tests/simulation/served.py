"""Plays `pushgrid serve`: one process that claims, settles and parks, on SQLite."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

from pushgrid.testing.memory import START, MemoryStore
from server.deliveries import Deliveries
from server.own_work import OwnWork, timers_of
from server.process import DELIVERING_SECONDS, LONGEST_END, STORING_SECONDS
from server.sqlite_home import SqliteHome
from shared.adapters.sql.database import moment, text_of_plain
from shared.adapters.sql.store import SqlStore
from shared.app import App, BackgroundWork
from shared.delivery.policy import EndReason, EndState
from shared.engine.ports import Queue, Receipt, Received, Table
from shared.engine.ports.leases import Lease
from shared.engine.ports.settling import Ended
from shared.errors import InvalidSettings, StorageUnavailable
from shared.settings import AttemptLogging
from shared.telemetry import LogLine, lines_to
from shared.watched_clock import WatchedClock
from tests.simulation.kernel import Pool, Process, Threads
from tests.simulation.ledger import Ledger, Push
from tests.simulation.machine import Change, Machine
from tests.simulation.plan import Plan
from tests.simulation.processes import Death, Instance, Processes, settings_of
from tests.simulation.world import Result, World

LOSES_POWER = 0.4  # of the kills
IN_ORDER = 0.25  # of the ends that a plan names
STARTS_AGAIN = 5.0  # seconds after it has ended by itself


class ServedHost:
    """Runs an app as `serve` does: on a home, with its pusher and its own work."""

    def __init__(
        self,
        app: App,
        process: Process,
        home: SqliteHome,
        *,
        rests: int,
        is_worth: Callable[[], bool],  # whether a timer's run has work
        ended: Callable[[str], object],
    ) -> None:
        self._app, self._process, self._home = app, process, home
        self._rests, self._is_worth, self._ended = rests, is_worth, ended
        self._deliveries: Deliveries | None = None
        self._work: OwnWork
        self.is_ready = False

    @property
    def open(self) -> int:
        return self._deliveries.under_way if self._deliveries else 0

    def begin(self) -> None:
        loop = self._process.loop
        loop.call_soon(lambda: loop.create_task(self._run()))

    def put(self, queue: Queue, visible_at: datetime) -> None:
        """Do nothing: another account has no queues."""

    async def _run(self) -> None:
        app, home = self._app, self._home
        try:
            await home.open(self._give_up)
        except InvalidSettings as error:
            self._ended(f"does not start: {error.message}")
            return
        self._deliveries = Deliveries(home.leases, self._deliver, app.store.traits.most_in_hand)
        timers = [each._replace(call=partial(self._fire, each)) for each in timers_of(app)]
        rarer = [
            [each._replace(period=each.period * self._rests) for each in some]
            for some in (app.background, [*timers, *home.background])
        ]
        self._work = OwnWork(home, Threads(self._process), everywhere=rarer[0], elected=rarer[1])
        self._deliveries.begin()
        self._work.begin()
        self.is_ready = True
        self._ended(f"can't go on: {await home.broken()}")

    def end(self) -> None:
        """Begin to end in order, as the server does after SIGTERM."""
        self.is_ready = False
        loop = self._process.loop
        loop.call_soon(lambda: loop.create_task(self._end()))

    async def _end(self) -> None:
        assert self._deliveries
        await self._deliveries.stop_taking()
        await self._work.stop()
        self._app.stop()
        await self._deliveries.finish(DELIVERING_SECONDS)
        for last in (self._app.end, self._home.close):
            with suppress(TimeoutError, StorageUnavailable):
                async with asyncio.timeout(STORING_SECONDS):
                    await last()
        self._ended("ends in order")

    def _give_up(self, queue: Queue, body: str, reason: str) -> None:
        self._app.intake.give_up(queue, body, reason)

    async def _deliver(self, lease: Lease) -> None:
        settling = self._home.settling(lease, self._app.metrics)
        await self._app.deliver.run(lease.body, lease.queue, settling)

    def _fire(self, timer: BackgroundWork) -> bool:
        return self._is_worth() and timer.call()


class ServedProcesses(Processes):
    """One process at a time, on one machine."""

    machine: Machine
    ledger: ServedLedger

    def __init__(self, plan: Plan, *given: Any) -> None:
        super().__init__(plan._replace(processes=1), *given)
        self.ledger = self._ledger  # type: ignore[assignment]
        self._dying_in_commit = set[Process]()

    def begin(self) -> None:
        self.slots.append(self._new(0, 0.0))
        self.slots[0].host.begin()

    def any(self) -> Instance | None:
        found = self.slots[0]  # the process that has the folder, or had it last
        return found if found.process.is_alive and self._host.is_ready else None

    @property
    def _host(self) -> ServedHost:
        return cast("ServedHost", self.slots[0].host)

    def kill(self, process: int, requests: int, down: float, again: int, skew: float) -> None:
        del process, skew
        instance = self.slots[0]
        if instance.is_well and self._host.is_ready and self._chance.random() < IN_ORDER:
            self.ledger.fault(instance.process, "is told to end")
            instance.death = Death(10**9, down, again, 0)
            self._host.end()
            later = partial(self._die, 0, instance, "while it ends")
            self._kernel.at(self._kernel.now + 2 * LONGEST_END, later)
            return
        super().kill(0, requests * 5, down, again, skew=0.0)

    def freeze(self, process: int, seconds: float, before: str) -> None:
        del process
        super().freeze(0, seconds, before and "sqlite.COMMIT")

    def is_struck(self, process: Process, verb: str, when: str) -> bool:
        slot, instance = self._by_name[process.name]
        spares = process in self._dying_in_commit and verb != "COMMIT"
        return self._is_struck(slot, instance, f"sqlite.{verb}", when, spares=spares)

    def jump(self, process: int, by: float) -> None:
        """Do nothing: a machine's only clock is believed."""

    def strike(self, process: Process, where: str) -> None:
        _, instance = self._by_name[process.name]
        instance.death = instance.death or Death(0, STARTS_AGAIN, 2, 0)
        self._die(0, instance, where)

    def _ends(self, name: str, why: str) -> None:
        _, instance = self._by_name[name]
        why = why.replace(str(self.machine.folder), "the folder")
        self._seen[f"ends itself: {why.partition(':')[0]}"] += 1
        instance.death = instance.death or Death(0, STARTS_AGAIN, 0, 0)
        self._die(0, instance, f"while it {why}", is_by_power=False)

    def _die(
        self, slot: int, instance: Instance, where: str, *, is_by_power: bool | None = None
    ) -> None:
        if instance.death is None or not instance.process.is_alive:
            return
        loses_power = self._chance.random() < LOSES_POWER if is_by_power is None else is_by_power
        self._seen["the power fails"] += loses_power
        self.ledger.died()
        self.machine.stop(loses_power=loses_power)
        super()._die(slot, instance, f"{where}{', since the power fails' if loses_power else ''}")

    def _new(self, slot: int, skew: float) -> Instance:
        name = f"p{slot}.{len(self._by_name)}"
        with lines_to(partial(self.ledger.hear, name)):
            process = Process(self._kernel, name, copy_context())
        clock = WatchedClock(self.storage.clock.now, process.loop.time, awaits_storage=True)
        self.storage.clocks[name] = SimpleNamespace(storage_answered=lambda *_: None)  # type: ignore[assignment]
        self._ledger.began(process, skew, lambda: clock.is_trusted)
        elsewhere = self.storage.store.of(name, Pool(process, most=1_000_000)).dead_letters
        folder = self.machine.start()
        settings = replace(
            settings_of(self._plan.settings),
            attempt_log=AttemptLogging.ALL,
            own_account=MemoryStore.account,
        )
        ids = Random(f"ids {name} {self._plan.seed}")

        def make_store(folder: Path, **options: Any) -> SqlStore:
            return SqlStore(
                folder,
                **options | {"other_accounts": elsewhere},
                connect=lambda database: self.machine.connect(process, database),
                new_id=lambda: ids.randbytes(16).hex(),
                low_water=0,
            )

        home = SqliteHome(folder, settings, clock, Threads(process), make_store)
        draws = Random(f"draws {name}")
        app = self._compose(process, clock, settings, lambda: home.store, draws)
        host = ServedHost(
            app,
            process,
            home,
            rests=60 if self._plan.is_long else 1,
            is_worth=self._has_work,
            ended=partial(self._ends, name),
        )
        if draws.random() < 0.5:
            self._dying_in_commit.add(process)
        instance = Instance(process, clock, app, host, [skew])  # type: ignore[arg-type]
        self._by_name[name] = (slot, instance)
        return instance

    def _has_work(self) -> bool:
        now, ran_at = self._kernel.now, self._ran_at
        is_due = self.machine.due(Queue.DEADLETTERS, self.storage.clock.now())
        if is_due or self.always_fires or now - ran_at["deadletter"] >= 3600:
            ran_at["deadletter"] = now
            return True
        return False


class ServedLedger(Ledger):
    """Judges by what was committed, row by row."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._lines: dict[str, Sequence[str]] = {}
        self.stored: Any = SimpleNamespace(payloads=SimpleNamespace(blobs=self._lines))
        self._under_way: Counter[tuple[str, int, str]] = Counter()  # pushes that are not settled
        self._drops: dict[tuple[str, int, str], list[int]] = {}  # told, stored

    def began(self, process: Process, skew: float, is_trusted: Callable[[], bool]) -> None:
        super().began(process, skew, is_trusted)
        self._told.add(process)

    def hear(self, process: str, line: LogLine) -> None:
        """Tell a line of the app's log with the story."""
        if self.story is not None:
            self.story.append((self._kernel.now, f"{process} logs {line.json}", frozenset()))

    def died(self) -> None:
        """Enter that what is under way may be repeated: it was not settled."""
        self._repeated(sorted(self._under_way), "its process ends")

    def committed(self, process: Process, changes: Sequence[Change]) -> None:
        """Enter what a transaction has stored."""
        for each in changes:
            getattr(self, f"_{each.table}")(process, each)

    def _documents(self, process: Process, change: Change) -> None:
        kind, topic, name = change.key
        self.note(f"{process.name} {'stores' if change.new else 'deletes'} {kind} {topic} {name}")
        if kind == Table.EVENT_SUBSCRIPTIONS:
            self._stored(topic, name, json.loads(change.new[3]) if change.new else None)

    def _messages(self, process: Process, change: Change) -> None:
        old, new = change.old, change.new
        if new is None:
            assert old
            self._holders.pop(str(old[0]), None)
            self.note(f"{process.name} deletes {old[0]}")
            return
        number, queue, due, _, run, receipt, receives, deaths, *_, body = new
        text, name = body.decode(), process.name
        if old is None:
            hidden = moment(due) - START - timedelta(seconds=self._kernel.now)
            self.note(f"{name} stores {number} in {hidden}{', in hand' if run else ''}")
            self._put(process, Queue(queue), text)
            return
        told = f"{name} changes {number} on {queue}: run {old[4]} → {run}, deaths {deaths}"
        parts = self._parts(text)
        self.note(told, [n for _, numbers in parts for n in numbers])
        if body != old[10]:
            self._judge_parts(number, text)
        if old[4] and not run:
            self._given_back(process, text)
        elif run == 0 and receives > old[6]:
            found = Received(text=text, receipt=Receipt(str(number), str(receipt)), count=receives)
            self._received(process, Queue(queue), [found])

    def _judge_parts(self, number: int, text: str) -> None:
        """Judge whether a message that is rewritten has nothing twice."""
        for part, numbers in self._parts(text):
            ids = [(each.origin.publish_id, each.position) for each in part.deliveries]
            if len({*ids}) < len(ids):
                self.find("repeated", f"message {number} has one of {numbers} twice")

    def _given_back(self, process: Process, text: str) -> None:
        keys = [
            (part.subscription.lower(), number, self._job_of(each))
            for part, numbers in self._parts(text)
            for number, each in zip(numbers, part.deliveries, strict=True)
        ]
        pushed = [each for each in keys if self._under_way[each]]
        if pushed and self._faults.get(process, -1e9) < self._kernel.now - 300:
            self.find("comes again", f"{pushed} without a fault")
        self._repeated(pushed, "its message is given back")

    def _payloads(self, process: Process, change: Change) -> None:
        if change.old is None and change.new:
            name, expires, body = change.new
            self._lines[name] = body.decode().split("\n")
            self._judge_payload(process, moment(expires))

    def _blobs(self, __: Process, change: Change) -> None:
        if change.new and not change.old:
            container, path, *_, body = change.new
            if container == "poison":
                self.find("poison", path)
            else:
                self._buried(path, body)

    def _attempts(self, process: Process, change: Change) -> None:
        if change.new is None:
            return
        _, name, _, _, _, _, event, _, job, record, _ = change.new
        if event is None:
            return
        key = text_of_plain(name), int(text_of_plain(event)[1:]), text_of_plain(job or "")
        known = json.loads(record)
        if known.get("outcome") and self._under_way[key]:
            self._under_way[key] -= 1
        self.note(f"{process.name} has settled {key}: {known.get('state')}", [key[1]])
        if known.get("state") == EndState.DROPPED:
            self._dropped(key, EndReason(known["reason"]), process, is_stored=True)

    # ── What differs ──

    def ended(self, process: str, end: Ended) -> None:
        name, number = end.key.subscription.lower(), self._number_of(end.delivery)
        if end.state is not EndState.DROPPED:
            super().ended(process, end)
            return
        self.note(f"{process} tells the end of {name} {number}: {end.reason}", [number])
        if end.reason is EndReason.PAYLOAD_MISSING:
            self.find("payload missing", f"an event of {name}")
            return
        key = name, number, self._job_of(end.delivery)
        self._dropped(key, end.reason, self._processes[process], is_stored=False)

    def _dropped(
        self, key: tuple[str, int, str], reason: EndReason, by: Process, *, is_stored: bool
    ) -> None:
        """Enter a drop that the app tells, or that was stored, whichever comes first."""
        drops = self._drops.setdefault(key, [0, 0])
        before = max(drops)
        drops[is_stored] += 1
        if max(drops) > before:
            entry = self._entry(*key)
            self._judge_end(entry, reason, by, is_drop=True)
            self._end(entry, f"dropped: {reason}")

    def _judge_push(self, push: Push, number: int) -> None:
        entry = self._of_push(push, number)
        super()._judge_push(push, number)
        self._under_way[entry.subscription, number, entry.job] += 1

    def _read_at(self, _: Process, __: str) -> float | None:
        """Return when the terms of an end were read: in the transaction that stores it."""
        return self._kernel.now

    def _repeated(self, keys: Sequence[tuple[str, int, str]], why: str) -> None:
        for key in keys:
            if count := self._under_way.pop(key, 0):
                self.note(f"  {key} may be repeated: {why}", [key[1]])
                self._entry(*key).copies += count


class ServedWorld(World):
    """All that there is in a simulation of a server."""

    make_ledger, make_processes = ServedLedger, ServedProcesses

    def play(self) -> Result:
        with tempfile.TemporaryDirectory(prefix="pushgrid-", ignore_cleanup_errors=True) as name:
            seed, self.ledger.store = self._plan.seed, self.ledger.stored  # type: ignore[attr-defined]
            self.machine = self.processes.machine = Machine(  # type: ignore[attr-defined]
                self.kernel,
                self.ledger,
                self.storms,
                Random(f"machine {seed}"),
                self._seen,
                Path(name),
                self.processes.is_struck,  # type: ignore[attr-defined]
                self.processes.strike,  # type: ignore[attr-defined]
                self.ledger.committed,  # type: ignore[attr-defined]
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

    def _unfinished(self) -> Mapping[Any, Any]:
        return {}  # What waits is counted by rows.

    def _payloads(self) -> Collection[Any]:
        return self.machine.rows["payloads"]
