"""Plays a plan: processes on one store, publishers, operators and endpoints, in simulated time."""

from __future__ import annotations

import json
import logging
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any, NamedTuple

from pushgrid.testing.composition import MemoryOutbound
from pushgrid.testing.memory import START
from shared.adapters.watched_clock import WatchedClock
from shared.app import App
from shared.clock import timestamp
from shared.engine.ports import Queue, Table
from shared.http import HttpAnswer, HttpRequest
from shared.settings import Settings
from tests.simulation.endpoints import Endpoints, SimulatedPusher
from tests.simulation.host import DEADLETTER, PERIODS, WAKE, FunctionsHost
from tests.simulation.kernel import Kernel, Process, Threads
from tests.simulation.ledger import Finding, Ledger, Published
from tests.simulation.plan import KINDS, OTHER_ACCOUNT, Plan, Step
from tests.simulation.storage import Request, Storage, Storm, View, Weather

GROUP = "/subscriptions/s1/resourceGroups/rg/providers"
HOST = "https://pushgrid.example"
KEY = "the-admin-key"
LEASE = 60.0  # seconds until another process has the timers of one that is gone
ARM_AGAIN = 20.0  # seconds until an operator repeats what failed
_SHIFTS = {WAKE: (Queue.WAITING,), DEADLETTER: (Queue.DEADLETTERS, Queue.DELIVERIES_POISON, Queue.RETRIES_POISON)}


class SimulatedChance:
    """Implements ``Chance`` by a seed."""

    def __init__(self, seed: str) -> None:
        self._random = Random(seed)
        self.jitter = self._random.random

    def id(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    secret_id = id

    def secret(self, size: int) -> bytes:
        return self._random.randbytes(size)


@dataclass(slots=True, eq=False)
class Instance:
    """A process and what runs in it."""

    process: Process
    clock: WatchedClock
    app: App
    host: FunctionsHost
    offset: float  # seconds by which its wall clock is wrong
    requests: int = 0
    dies_in: int = 0  # requests; 0: it does not


class Result(NamedTuple):
    """What a simulation has shown."""

    findings: Sequence[Finding]
    promised: int
    seconds: float  # of simulated time
    seen: Counter[str]
    digest: str
    story: Sequence[tuple[float, str, frozenset[int]]]
    turns: int


class _Drops(logging.Handler):
    """Hears in the log which events were dropped."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(logging.WARNING)
        self._ledger = ledger

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if '"delivery.dropped"' in text:
            line = json.loads(text)
            ids = line.get("event_ids", ())
            self._ledger.dropped(
                line["topic"].lower(), line["subscription"].lower(), line["reason"], ids, line["count"]
            )


def play(plan: Plan, *, tells: bool = False) -> Result:
    """Play a plan, and judge it; *tells*: keep the story."""
    world = World(plan, tells=tells)
    log = logging.getLogger("pushgrid")
    handler, level, propagates = _Drops(world.ledger), log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.WARNING)
    log.propagate = False
    try:
        return world.play()
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
        log.propagate = propagates


class World:
    """All that there is in one simulation."""

    def __init__(self, plan: Plan, *, tells: bool) -> None:
        self.plan = plan
        seed = plan.seed
        self.kernel = Kernel(Random(f"turns {seed}"), shuffles=plan.shuffles)
        storms = [
            Storm(each.at, each.args["until"], *(each.args[n] for n in ("kind", "share", "ports")))
            for each in plan.steps
            if each.what == "storm"
        ]
        self.weather = Weather(Random(f"weather {seed}"), storms)
        self.storage = Storage(self.kernel, self.weather)
        self.chance = Random(f"world {seed}")
        self.ledger = Ledger(self.kernel, self.storage.store, plan.settings)
        self.endpoints = Endpoints(self.kernel, Random(f"endpoints {seed}"), self.ledger)
        self.storage.observers += self.ledger, self
        self.storage.between = self._between
        self.instances: list[Instance | None] = [None] * plan.processes
        self._born = 0
        self._events = 0
        self._open = 0  # calls of operators and publishers
        self._generations: Counter[str] = Counter()
        self._moves: Counter[str] = Counter()
        self._paths: dict[str, str] = {}
        self._schemas: dict[str, str] = {}
        self._keys: dict[str, str] = {}
        self._leases: dict[str, tuple[int, float]] = {}
        self._ran_at = dict.fromkeys(PERIODS, 0.0)
        self._unheard: list[str] = []
        if tells:
            self.ledger.story = []

    def play(self) -> Result:
        kernel, plan = self.kernel, self.plan
        for slot in range(plan.processes):
            self._start(slot, self.chance.choice((0, 0, 0, 3, -3600)))
        for step in plan.steps:
            if step.what != "storm":
                kernel.at(step.at, partial(self._do, step))
        self._tick()
        kernel.at(plan.heals_at, self._heal)
        last = max([plan.heals_at, *(each.at for each in plan.steps)])
        kernel.run(last + 60)
        while not self._is_quiet() and kernel.now < plan.ends_at:
            kernel.run(kernel.now + 300)
        kernel.run(kernel.now + 600)
        self._close()
        return Result(
            findings=self.ledger.findings,
            promised=sum(each.is_promised for each in self.ledger.entries.values()),
            seconds=kernel.now,
            seen=self.weather.seen + self.endpoints.seen,
            digest=self.ledger.digest.hexdigest(),
            story=self.ledger.story or (),
            turns=kernel.turns,
        )

    # ── Processes ──

    def _start(self, slot: int, skew: float, dies_in: int = 0) -> None:
        self._born += 1
        process = Process(self.kernel, f"p{slot}.{self._born}")
        if abs(skew) > 10:
            self.weather.seen["a wrong clock at start"] += 1
        instance: Instance

        def wall() -> datetime:
            return self.storage.clock.now() + timedelta(seconds=offsets[0])

        offsets = [skew]
        clock = WatchedClock(wall, process.loop.time, awaits_storage=True)
        view = View(self.storage, process, clock)
        pusher = SimulatedPusher(process, self.endpoints, self.ledger, "aeg-replay-of")
        app = App(
            settings=self._settings(),
            store=lambda: view,
            outbound=lambda: MemoryOutbound(pusher),
            clock=clock,
            threads=Threads(process),
            chance=SimulatedChance(f"{process.name} {self.plan.seed}"),
        )
        host = FunctionsHost(app, process, self.storage, view, Random(f"{process.name} host {self.plan.seed}"))
        instance = Instance(process, clock, app, host, skew, dies_in=dies_in)
        instance.offset = skew
        self._offsets = getattr(self, "_offsets", {})
        self._offsets[process] = offsets
        self.instances[slot] = instance
        self.ledger.settled[process] = lambda: clock.is_settled
        self.ledger.note(f"{process.name} starts, its clock off by {skew} s")
        host.begin()

    def _settings(self) -> Settings:
        return Settings(
            storage={},
            wake_schedule="0 * * * * *",
            deadletter_schedule="0 */5 * * * *",
            admin_key=KEY,
            allow_http=True,
            replay_header=True,
            deadletter_accounts={OTHER_ACCOUNT: {}},
            public_url=HOST,
            **self.plan.settings,
        )

    def _do(self, step: Step) -> None:
        getattr(self, f"_{step.what}")(**step.args)

    def _kill(
        self, process: int, requests: int, down: float, again: int, skew: float
    ) -> None:
        instance = self.instances[process]
        if instance is None or not instance.process.is_alive:
            return
        instance.dies_in = requests + 1
        instance.host.process.down = (down, again, skew)  # type: ignore[attr-defined]
        self.kernel.at(self.kernel.now + 60, partial(self._die, process, instance, "while idle"))

    def _between(self, request: Request, when: str) -> None:
        slot = int(request.process.name[1])
        instance = self.instances[slot]
        if instance is None or instance.process is not request.process or not instance.dies_in:
            return
        instance.dies_in -= when == "before" and instance.dies_in > 1
        if instance.dies_in == 1 and (when == "after" or self.chance.random() < 0.5):
            self._die(slot, instance, f"{when} {request.name}")

    def _die(self, slot: int, instance: Instance, where: str) -> None:
        if not instance.process.is_alive:
            return
        down, again, skew = instance.host.process.down  # type: ignore[attr-defined]
        self.weather.seen[f"killed {where.split()[0]}"] += 1
        self.ledger.fault(instance.process, f"is killed {where}")
        self._unheard += instance.process.unheard
        self.kernel.at(self.kernel.now + down, partial(self._rise, slot, down, again, skew))
        instance.process.kill()

    def _rise(self, slot: int, down: float, again: int, skew: float) -> None:
        is_ill = self.kernel.now < self.plan.heals_at and again
        self._start(slot, skew, dies_in=self.chance.randint(2, 30) if is_ill else 0)
        born = self.instances[slot]
        assert born
        born.host.process.down = (down, again - 1, 0)  # type: ignore[attr-defined]

    def _freeze(self, process: int, seconds: float) -> None:
        instance = self.instances[process]
        if instance and instance.process.is_alive and not instance.process.is_frozen:
            self.weather.seen["frozen"] += 1
            self.ledger.fault(instance.process, f"is frozen for {seconds} s")
            instance.process.freeze()
            self.kernel.at(self.kernel.now + seconds, partial(self._thaw, instance.process))

    def _thaw(self, process: Process) -> None:
        self.ledger.fault(process, "goes on")
        process.thaw()

    def _jump(self, process: int, by: float) -> None:
        instance = self.instances[process]
        if instance and instance.process.is_alive:
            self.weather.seen["a clock jumps"] += abs(by) > 10
            self._offsets[instance.process][0] += by
            self.ledger.jumped(instance.process, by)

    def _heal(self) -> None:
        self.ledger.note("all is well from now on")
        for slot, instance in enumerate(self.instances):
            if instance:
                instance.dies_in = 0
                if instance.process.is_frozen:
                    self._thaw(instance.process)
        for name in self._paths:
            if "eventSubscriptions" in self._paths[name]:
                self._act(name, "POST", "/resume")

    def _tick(self) -> None:
        """Let the timers run that are due, in the processes that have their leases."""
        now = self.kernel.now
        self.kernel.at(now + 60, self._tick)
        for timer, period in PERIODS.items():
            if now % period or not self._is_worth(timer):
                continue
            self._ran_at[timer] = now
            slots = [n for n, each in enumerate(self.instances) if each and each.process.is_alive]
            leader, seen_at = self._leases.get(timer, (0, -LEASE))
            is_well = leader in slots and not self.instances[leader].process.is_frozen  # type: ignore[union-attr]
            if not is_well and now - seen_at >= LEASE:
                well = [n for n in slots if not self.instances[n].process.is_frozen]  # type: ignore[union-attr]
                leader = self.chance.choice(well) if well else leader
                is_well = bool(well)
            if is_well:
                self._leases[timer] = (leader, now)
                self._fire(leader, timer)
            for other in slots:
                if other != leader and self.chance.random() < self.plan.overlaps:
                    self.weather.seen["timers overlap"] += 1
                    self._fire(other, timer)

    def _fire(self, slot: int, timer: str) -> None:
        instance = self.instances[slot]
        assert instance
        wait = self.chance.random() * 2
        self.kernel.at(self.kernel.now + wait, partial(instance.host.fire, timer))

    def _is_worth(self, timer: str) -> bool:
        """Tell whether a timer's run would do anything; now and then it runs all the same."""
        queues, now = self.storage.store.queues, self.storage.clock.now()
        found = queues.earliest(*_SHIFTS[timer])
        is_due = found is not None and found[1].visible_at <= now
        return is_due or self.kernel.now - self._ran_at[timer] >= 3600

    # ── Storage ──

    def took_effect(self, request: Request, result: Any, *, again: bool = False) -> None:
        del again, result
        if request.name in ("queues.put", "queues.hide", "queues.replace"):
            wait = request.args[-1] if isinstance(request.args[-1], timedelta) else timedelta()
            at = self.storage.clock.now() + wait
            for instance in self.instances:
                if instance:
                    instance.host.put(request.queue, at)

    def was_answered(self, request: Request, result: Any) -> None:
        pass

    def was_not_answered(self, request: Request) -> None:
        pass

    # ── Operators and publishers ──

    def _make_topic(
        self, name: str, *, is_namespace: bool, schema: str, profile: str | None, retention: int
    ) -> None:
        self._schemas[name] = schema
        grid = f"{GROUP}/Microsoft.EventGrid"
        if is_namespace:
            self.ledger.topics[f"shop.{name}"] = ("ns", retention * 86400.0)
            self._paths[name] = f"{grid}/namespaces/shop/topics/{name}"
            self._arm("PUT", f"{grid}/namespaces/shop", {"location": "x"}, lambda _: None)
            body = {"properties": {"eventRetentionInDays": retention}}
            keys = f"{grid}/namespaces/shop/listKeys"
        else:
            self.ledger.topics[name] = (profile or self.plan.settings["profile"], 1e9)
            self._paths[name] = f"{grid}/topics/{name}"
            body = {"location": "x", "properties": {"inputSchema": schema}}
            if schema == "CustomEventSchema":
                fields = {n: {"sourceField": n} for n in ("id", "subject", "eventType", "eventTime")}
                mapping = {"inputSchemaMappingType": "Json", "properties": fields}
                body["properties"]["inputSchemaMapping"] = mapping  # type: ignore[index]
            if profile:
                body["tags"] = {"deliveryProfile": profile}
            keys = f"{self._paths[name]}/listKeys"

        def keep(answer: Any) -> None:
            self._keys[name] = answer["key1"]

        self._arm("PUT", self._paths[name], body, lambda _: self._arm("POST", keys, None, keep))

    def _subscribe(self, topic: str, name: str, **terms: Any) -> None:
        self._generations[name] += 1
        path = f"{self._paths[topic]}/eventSubscriptions/{name}"
        self._paths[name] = path
        self._arm("PUT", path, self._subscription(topic, name, **terms), lambda _: None)

    def _update(self, topic: str, name: str, **terms: Any) -> None:
        if name in self._paths:
            body = self._subscription(topic, name, **terms)
            self._arm("PATCH", self._paths[name], body if self._is_of_namespace(topic) else body["properties"], lambda _: None)

    def _move(self, topic: str, name: str) -> None:
        if name in self._paths:
            self._moves[name] += 1
            destination = self._destination(name, 1)
            if self._is_of_namespace(topic):
                push = {"deliveryMode": "Push", "push": {"destination": destination}}
                body: Any = {"properties": {"deliveryConfiguration": push}}
            else:
                body = {"destination": destination}
            self._arm("PATCH", self._paths[name], body, lambda _: None)

    def _pause(self, topic: str, name: str) -> None:
        self._act(name, "POST", "/pause")

    def _resume(self, topic: str, name: str) -> None:
        self._act(name, "POST", "/resume")

    def _delete(self, topic: str, name: str) -> None:
        self._act(name, "DELETE", "")

    def _act(self, name: str, method: str, action: str) -> None:
        if name in self._paths:
            self._arm(method, self._paths[name] + action, None, lambda _: None, tries=4)

    def _replay(self, topic: str, name: str) -> None:
        body = {"topic": self._known(topic), "subscription": name}
        self._arm("POST", f"{GROUP}/Microsoft.EventGrid/replays", body, lambda _: None, tries=2)

    def _behave(self, name: str, behaviour: str, until: float) -> None:
        self.endpoints.behave(name, behaviour, until)

    def _is_of_namespace(self, topic: str) -> bool:
        return "/namespaces/" in self._paths[topic]

    def _destination(self, name: str, batch: int) -> dict[str, Any]:
        url = f"https://{name}.example/{self._generations[name]}-{self._moves[name]}"
        properties = {"endpointUrl": url, "maxEventsPerBatch": batch}
        return {"endpointType": "WebHook", "properties": properties}

    def _subscription(
        self,
        topic: str,
        name: str,
        *,
        kinds: Sequence[str] | None,
        attempts: int | None,
        minutes: int | None,
        dead_letter: str | None,
        batch: int,
        converts: bool,
        expires: float | None,
        rate: int | None,
    ) -> dict[str, Any]:
        if self._profile(topic) == "2017":  # It has nothing of all that.
            attempts = minutes = dead_letter = None
            batch = 1
        dead = None
        if dead_letter is not None:
            account = dead_letter or self.storage.store.account
            resource = f"{GROUP}/Microsoft.Storage/storageAccounts/{account}"
            properties = {"resourceId": resource, "blobContainerName": f"dead-{name}"}
            dead = {"endpointType": "StorageBlob", "properties": properties}
        destination = self._destination(name, batch)
        filter_ = {"includedEventTypes": list(kinds)} if kinds else {}
        given: dict[str, Any]
        if self._is_of_namespace(topic):
            push: dict[str, Any] = {"destination": destination, "deadLetterDestination": dead}
            push |= {"maxDeliveryCount": attempts} if attempts else {}
            push |= {"eventTimeToLive": f"PT{minutes}M"} if minutes else {}
            given = {"deliveryConfiguration": {"deliveryMode": "Push", "push": push}}
            given |= {"filtersConfiguration": filter_} if filter_ else {}
        else:
            policy = {"maxDeliveryAttempts": attempts, "eventTimeToLiveInMinutes": minutes}
            given = {
                "destination": destination,
                "deadLetterDestination": dead,
                "filter": filter_,
                "retryPolicy": {n: v for n, v in policy.items() if v},
            }
            given |= {"eventDeliverySchema": self._delivery_schema(topic, converts=converts)}
        if expires:
            given["expirationTimeUtc"] = timestamp(START + timedelta(seconds=expires))
        return {"properties": given}

    def _profile(self, topic: str) -> str:
        return self.ledger.topics[self._known(topic)][0]

    def _known(self, topic: str) -> str:
        """Return the name of a topic on the data plane."""
        return f"shop.{topic}" if self._is_of_namespace(topic) else topic

    def _delivery_schema(self, topic: str, *, converts: bool) -> str:
        schema = self._schemas[topic]
        if schema == "CustomEventSchema":
            return "EventGridSchema" if converts else "CustomInputSchema"
        return "CloudEventSchemaV1_0" if converts else schema

    def _arm(
        self, method: str, path: str, body: Any, then: Callable[[Any], object], tries: int = 12
    ) -> None:
        """Call the management API of any process, again where that fails."""
        instance = self._any()
        if instance is None or tries == 0:
            if tries:
                again = partial(self._arm, method, path, body, then, tries)
                self.kernel.at(self.kernel.now + 5, again)
            return
        text = b"" if body is None else json.dumps(body).encode()
        request = HttpRequest(
            method=method,
            url=HOST + path,
            headers={"authorization": f"Bearer {KEY}"},
            query={"api-version": "2025-02-15"},
            body=text,
        )
        self._open += 1
        is_over: list[bool] = []

        def end(answer: HttpAnswer | None) -> None:
            if is_over:
                return
            is_over.append(True)
            self._open -= 1
            text = "" if answer is None or answer.status < 400 else answer.body.decode()
            self.ledger.note(f"{method} {path}: {answer and answer.status} {text}")
            if answer and answer.status < 300:
                then(json.loads(answer.body) if answer.body else None)
            elif answer is None or answer.status in (404, 409, 429, 500, 502, 503, 504, 400):
                self.last_refusal = answer
                wait = ARM_AGAIN if self.kernel.now > 60 else 1
                self.kernel.at(
                    self.kernel.now + wait, partial(self._arm, method, path, body, then, tries - 1)
                )

        instance.process.begin(lambda: end(instance.app.manage.run(request)))
        self.kernel.at(self.kernel.now + 400, lambda: end(None))

    def _publish(self, topic: str, count: int, size: int) -> None:
        instance = self._any()
        if instance is None or topic not in self._keys:
            return
        name = self._known(topic)
        numbers = range(self._events, self._events + count)
        self._events += count
        events = []
        for number in numbers:
            kind = self.chance.choice(KINDS)
            self.ledger.sent(number, Published(name, kind, self.kernel.now, instance.process))
            events.append(_event(self._schemas[topic], number, kind, size))
        is_cloud = self._schemas[topic] == "CloudEventSchemaV1_0"
        form = "application/cloudevents-batch+json" if is_cloud else "application/json"
        request = HttpRequest(
            method="POST",
            url=f"{HOST}/topics/{topic}/api/events",
            headers={"aeg-sas-key": self._keys[topic], "content-type": form},
            params={"topic": topic},
            query={"api-version": "2018-01-01"},
            body=json.dumps(events).encode(),
        )
        if self._is_of_namespace(topic):
            request = HttpRequest(
                method="POST",
                url=f"{HOST}/namespaces/shop/topics/{topic}:publish",
                headers={"authorization": f"SharedAccessKey {self._keys[topic]}", "content-type": form},
                params={"namespace": "shop", "action": f"{topic}:publish"},
                query={"api-version": "2024-06-01"},
                body=json.dumps(events).encode(),
            )
        self.ledger.note(f"{instance.process.name} is sent {len(numbers)} events for {name}", numbers)
        began = self.kernel.now

        async def publish() -> None:
            answer = await instance.app.answer_publisher(request)
            if self.kernel.now - began < 60:
                self.ledger.answered(numbers, answer.status)
                if answer.status not in (200, 503):
                    self.ledger.find("refused", answer.body.decode(), name, numbers[0])
                self.weather.seen[f"published {answer.status}"] += 1

        loop = instance.process.loop
        loop.call_soon(lambda: loop.create_task(publish()))

    def _any(self) -> Instance | None:
        found = [each for each in self.instances if each and each.process.is_alive]
        return self.chance.choice(found) if found else None

    # ── The end ──

    def _is_quiet(self) -> bool:
        queues = self.storage.store.queues
        is_empty = not any(queues.stored[queue] for queue in Queue)
        is_idle = not any(each and each.host.open for each in self.instances)
        return is_empty and is_idle and not self._open

    def _close(self) -> None:
        for queue in Queue:
            if stored := self.storage.store.queues.stored[queue]:
                self.ledger.find("left", f"{len(stored)} messages on {queue}")
        for instance in self.instances:
            if instance:
                self._unheard += instance.process.unheard
        for each in self._unheard:
            self.ledger.find("unheard", each)
        self.ledger.close()


def _event(schema: str, number: int, kind: str, size: int) -> Mapping[str, Any]:
    data = {"n": number, "text": "x" * size}
    if schema == "CloudEventSchemaV1_0":
        source = {"specversion": "1.0", "source": "/sim", "subject": f"/{kind}"}
        return {"id": f"e{number}", "type": kind, **source, "data": data}
    about = {"id": f"e{number}", "subject": f"/{kind}", "eventType": kind}
    event = {**about, "eventTime": "2026-02-09T12:00:00Z", "data": data}
    return event if schema == "CustomEventSchema" else {**event, "dataVersion": "1"}
