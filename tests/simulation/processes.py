"""The processes of a deployment: they start, are killed, frozen, and have wrong clocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextvars import copy_context
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any, NamedTuple

from pushgrid.testing.composition import MemoryOutbound
from pushgrid.testing.memory import SeededChance
from pushgrid.testing.memory.faults import StoreRequest
from shared.app import App
from shared.engine.ports import Pusher, Queue, Store
from shared.settings import Settings
from shared.telemetry import lines_to
from shared.watched_clock import WatchedClock
from tests.simulation.endpoints import Endpoints, SimulatedPusher
from tests.simulation.host import DEADLETTER, PERIODS, WAKE, FunctionsHost
from tests.simulation.kernel import Kernel, Pool, Process, Threads
from tests.simulation.ledger import Ledger
from tests.simulation.plan import OTHER_ACCOUNT, Plan
from tests.simulation.storage import USUAL, Storage

HOST = "https://pushgrid.example"
KEY = "the-admin-key"
LEASE = 60.0  # seconds until another process has the timers of one that is gone
IDLE = 60.0  # seconds in which a process is killed that makes too few requests
SEEN_BY_CLOCK = 10.0  # seconds
_FEEDS = {
    WAKE: (Queue.WAITING,),
    DEADLETTER: (Queue.DEADLETTERS, Queue.DELIVERIES_POISON, Queue.RETRIES_POISON),
}


class Death(NamedTuple):
    """A kill to come: at a request, or after a while."""

    requests: int  # until then
    down: float  # seconds until it starts again
    again: int  # how often it is killed then, soon after its start
    skew: float  # of its clock when it starts, in seconds
    aim: str = ""  # what its requests have to be, if anything


@dataclass(slots=True, eq=False)
class Instance:
    """A process and what runs in it."""

    process: Process
    clock: WatchedClock
    app: App
    host: FunctionsHost
    skew: list[float]  # of its wall clock, in seconds
    death: Death | None = None
    freeze: tuple[str, float] = ("", 0.0)  # to come: before which request, for how long

    @property
    def is_well(self) -> bool:
        return self.process.is_alive and not self.process.is_frozen


class Processes:
    """All processes, each in a slot that the next one takes when it is killed."""

    idle = IDLE

    def __init__(
        self,
        plan: Plan,
        kernel: Kernel,
        ledger: Ledger,
        endpoints: Endpoints,
        seen: Counter[str],
        chance: Random,
    ) -> None:
        self._plan, self._kernel, self._ledger = plan, kernel, ledger
        self._endpoints, self._seen, self._chance = endpoints, seen, chance
        self.storage: Storage  # set by whoever makes both
        self.slots: list[Instance] = []
        self._by_name: dict[str, tuple[int, Instance]] = {}
        self._leases = dict.fromkeys(PERIODS, (0, -LEASE))
        self._ran_at = dict.fromkeys(PERIODS, 0.0)
        self.unheard: list[str] = []
        self.always_fires = False  # a timer, whether it has work or not

    def begin(self) -> None:
        for slot in range(self._plan.processes):
            instance = self._new(slot, self._chance.choice((0, 0, 0, 3, -3600)))
            self.slots.append(instance)
            instance.host.begin()
        self._tick()

    def any(self) -> Instance | None:
        """Return one that lives, for a request from outside."""
        found = [each for each in self.slots if each.process.is_alive]
        return self._chance.choice(found) if found else None

    def heal(self) -> None:
        """Let all go on, and none be killed any more."""
        for each in self.slots:
            each.death, each.freeze = None, ("", 0.0)
            if each.process.is_frozen:
                self._thaw(each)

    def is_idle(self) -> bool:
        return not any(each.host.open for each in self.slots)

    def close(self) -> list[str]:
        """Return what nobody has heard of, and what is left in the processes."""
        left = [
            f"{each.process.name}: {one}" for each in self.slots for one in each.app.leftovers()
        ]
        heard = [one for each in self.slots for one in each.process.unheard]
        return [*self.unheard, *heard, *left]

    # ── What the plan does ──

    def kill(
        self, process: int, requests: int, down: float, again: int, skew: float, *, aim: str = ""
    ) -> None:
        instance = self.slots[process]
        if instance.process.is_alive and instance.death is None:
            instance.death = Death(requests, down, again, skew, aim)
            later = partial(self._die, process, instance, "while idle")
            self._kernel.at(self._kernel.now + self.idle, later)

    def freeze(self, process: int, seconds: float, before: str) -> None:
        """Freeze a process at once, or *before* its next request of that name."""
        instance = self.slots[process]
        if before:
            instance.freeze = (before, seconds)
        elif instance.is_well:
            self._seen["frozen"] += 1
            self._ledger.frozen(instance.process, seconds)
            instance.process.is_frozen = True
            self._kernel.at(self._kernel.now + seconds, partial(self._thaw, instance))

    def jump(self, process: int, by: float) -> None:
        instance = self.slots[process]
        if instance.process.is_alive:
            self._seen["a clock jumps"] += abs(by) > SEEN_BY_CLOCK
            instance.skew[0] += by
            self._ledger.jumped(instance.process, by)

    def between(self, request: StoreRequest, when: str) -> None:
        """Kill the process that makes a request before or after its effect, if it is time."""
        slot, instance = self._by_name[request.process]
        name = f"{request.port}.{request.method}"
        if self._is_struck(slot, instance, {name}, when):
            self._die(slot, instance, f"{when} {name}")

    def shown(self, queue: Queue, at: datetime) -> None:
        """Tell the hosts when a message becomes visible."""
        for each in self.slots:
            each.host.put(queue, at)

    # ── Parts of the above ──

    def _is_struck(
        self, slot: int, instance: Instance, request: Collection[str], when: str
    ) -> bool:
        """
        Count a request, and freeze before it; tell whether its process is to be killed now.

        *request* has what can be aimed at.
        """
        before, seconds = instance.freeze
        if when == "before" and before in request:
            instance.freeze = ("", 0.0)
            self._seen["frozen before a request"] += instance.is_well
            self.freeze(slot, seconds, "")
            self._kernel.sleep(USUAL)
        death = instance.death
        if death is None or (death.aim and death.aim not in request):
            return False
        if when == "before":
            instance.death = death = death._replace(requests=death.requests - 1)
        if death.requests > 0:
            return False
        return when == "after" or self._chance.random() < 0.5

    def _new(self, slot: int, skew: float) -> Instance:
        name, wrong = f"p{slot}.{len(self._by_name)}", [skew]
        with lines_to(lambda _: None):
            process = Process(self._kernel, name, copy_context())
        if abs(skew) > SEEN_BY_CLOCK:
            self._seen["a wrong clock at start"] += 1
        right = self.storage.clock.now

        def wall() -> datetime:
            return right() + timedelta(seconds=wrong[0]) if wrong[0] else right()

        clock = WatchedClock(wall, process.loop.time, awaits_storage=True)
        self.storage.clocks[name] = clock
        store = self.storage.store.of(name, Pool(process, most=1_000_000))
        draws = Random(f"{name} {self._plan.seed}")
        settings = settings_of(self._plan.settings)
        app = self._compose(process, clock, settings, lambda: store, draws)
        rests = 60 if self._plan.is_long else 6
        host = FunctionsHost(app, process, store, self.storage.clock, draws, rests=rests)
        instance = Instance(process, clock, app, host, wrong)
        self._by_name[name] = (slot, instance)
        self._ledger.began(process, skew, lambda: clock.is_trusted)
        return instance

    def _compose(
        self,
        process: Process,
        clock: WatchedClock,
        settings: Settings,
        store: Callable[[], Store],
        draws: Random,
    ) -> App:
        pusher = self._pusher(process)
        chance = SeededChance(f"{process.name} {self._plan.seed}")
        chance.jitter = draws.random
        outbound, threads = MemoryOutbound(pusher), Threads(process)
        app = App(
            settings=settings,
            store=store,
            outbound=lambda: outbound,
            clock=clock,
            threads=threads,
            chance=chance,
        )
        app.ended = partial(self._ledger.ended, process.name)
        return app

    def _pusher(self, process: Process) -> Pusher:
        return SimulatedPusher(process, self._endpoints, self._ledger)

    def _die(self, slot: int, instance: Instance, where: str) -> None:
        if instance.death and instance.process.is_alive:
            self._seen[f"killed {where.partition(' ')[0]}"] += 1
            self._bury(slot, instance, instance.death, f"is killed {where}")

    def _bury(self, slot: int, instance: Instance, death: Death, how: str) -> None:
        self._ledger.fault(instance.process, how)
        self.unheard += instance.process.unheard
        self._kernel.at(self._kernel.now + death.down, partial(self._rise, slot, death))
        instance.process.kill()

    def _rise(self, slot: int, death: Death) -> None:
        self.slots[slot] = instance = self._new(slot, death.skew)
        self._ledger.note(f"{instance.process.name} starts, its clock off by {death.skew} s")
        instance.host.begin()
        if death.again and self._kernel.now < self._plan.heals_at - IDLE:
            self.kill(slot, self._chance.randint(2, 30), death.down, death.again - 1, 0)

    def _thaw(self, instance: Instance) -> None:
        if instance.process.is_frozen:  # and did not go on before, when all was healed
            self._ledger.thawed(instance.process)
            instance.process.thaw()

    def _tick(self) -> None:
        """Let the timers run that are due, in the processes that have their leases."""
        now = self._kernel.now
        self._kernel.at(now + min(PERIODS.values()), self._tick)
        for timer, period in PERIODS.items():
            if now % period == 0 and self._is_worth(timer):
                self._ran_at[timer] = now
                leader = self._leader(timer)
                for slot, each in enumerate(self.slots):
                    overlaps = self._chance.random() < self._plan.overlaps
                    if each.process.is_alive and (slot == leader or overlaps):
                        self._seen["timers overlap"] += slot != leader
                        wait = self._chance.random() * 2
                        self._kernel.at(now + wait, partial(each.host.fire, timer))

    def _leader(self, timer: str) -> int | None:
        leader, seen_at = self._leases[timer]
        if not self.slots[leader].is_well:
            well = [slot for slot, each in enumerate(self.slots) if each.is_well]
            if not well or self._kernel.now - seen_at < LEASE:
                return None
            leader = self._chance.choice(well)
        self._leases[timer] = (leader, self._kernel.now)
        return leader

    def _is_worth(self, timer: str) -> bool:
        """Tell whether a timer's run has work; each hour it runs all the same."""
        found = self.storage.store.queues.earliest(*_FEEDS[timer])
        is_due = found is not None and found[1].visible_at <= self.storage.clock.now()
        is_old = self._kernel.now - self._ran_at[timer] >= 3600
        return is_due or is_old or self.always_fires


def settings_of(chosen: Mapping[str, Any]) -> Settings:
    return Settings(
        storage={},
        wake_schedule="0 * * * * *",
        deadletter_schedule="0 */5 * * * *",
        admin_key=KEY,
        allow_http=True,
        replay_header=True,
        deadletter_accounts={OTHER_ACCOUNT: {}},
        public_url=HOST,
        **chosen,
    )
