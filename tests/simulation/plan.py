"""Draws from a seed what happens in a simulation: a list from which parts can be left out."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

from shared.delivery.profiles import PROFILES

MINUTE, DAY = 60.0, 86400.0
GIVES_UP = 16.0  # seconds in which a request to storage ends (docs/decisions.md)
KINDS = ("a", "b", "c")  # of events: what filters choose by
CLOUD, CUSTOM = "CloudEventSchemaV1_0", "CustomEventSchema"
STORMS = (
    *("slow", "fails before", "fails after", "takes effect late", "stored twice", "outage"),
    "untimed",
)
PORTS = ("documents", "queues", "payloads", "dead_letters", "attempts", "counts")
OTHER_ACCOUNT = "elsewhere"
# What a storm hits: everything, or one part of storage.
_HIT = ((), (), ("queues",), ("queues",), *((each,) for each in (*PORTS, OTHER_ACCOUNT)))
_FOR_EVER = ("fails", "401", "413", "404", "400", "refused")  # an endpoint may never be well again
BEHAVIOURS = (
    *("ok", "ok", "ok", "slow", "hangs", "flaps", "throttles", "late", "lost answers"),
    *_FOR_EVER,
)
# Seconds for which a server does not renew: less than its lease, until it counts as dead, and more.
_BEYOND = (20, 35, 50, 55, 62, 75, 150)
_DUE = (10, 40, 100, 400, 1000, 2800)  # seconds after an event, when it is tried again


class Step(NamedTuple):
    """Something that happens at a time; *what* names the method that does it, or is a storm."""

    at: float  # seconds
    what: str
    args: dict[str, Any]


class Plan(NamedTuple):
    """All that is drawn before a simulation begins."""

    seed: int
    is_long: bool
    processes: int
    shuffles: bool
    overlaps: float  # of a timer's runs that another process makes, too
    settings: dict[str, Any]
    steps: tuple[Step, ...]
    heals_at: float
    ends_at: float
    home: str = "functions"  # or sqlite, postgres

    @property
    def events(self) -> int:
        return sum(each.args["count"] for each in self.steps if each.what == "publish")


def draw_plan(seed: int, home: str = "functions") -> Plan:
    """
    Draw a plan: one of ten is a long run with few events.

    Each home has the same. A long run on SQLite also has a pause of days; one on PostgreSQL is
    never long, and has what keeps servers from their leases.
    """
    drawing = _Drawing(seed, is_long=seed % 10 == 9 and home != "postgres")
    plan = drawing.plan()._replace(home=home)
    if home == "postgres":
        return drawing.with_leases(plan)
    return drawing.with_long_pause(plan) if home == "sqlite" and plan.is_long else plan


class _Drawing:
    def __init__(self, seed: int, *, is_long: bool) -> None:
        self._seed, self._is_long = seed, is_long
        self._chance = chance = Random(f"plan {seed}")
        lasts = chance.uniform(2 * DAY, 9 * DAY) if is_long else chance.uniform(20, 50) * MINUTE
        self._heals_at = lasts
        self._processes = chance.randint(2, 3)
        self._steps: list[Step] = []
        self._topics: list[str] = []
        self._subscriptions: list[tuple[str, str]] = []

    def plan(self) -> Plan:
        chance, is_long = self._chance, self._is_long
        for number in range(chance.randint(1, 3)):
            self._topic(f"topic{number}")
        for number in range(chance.randint(2, 6)):
            self._subscription(f"sub{number}", 5.0 if number < 2 else self._time() / 3)
        for _ in range(chance.randint(4, 12) if is_long else chance.randint(8, 30)):
            self._publish()
        for _ in range(chance.randint(4, 12)):
            self._change()
        for _ in range(chance.randint(3, 12)):
            self._fault()
        return Plan(
            seed=self._seed,
            is_long=is_long,
            processes=self._processes,
            shuffles=chance.random() < 0.25,
            overlaps=chance.choice((0.0, 0.1, 0.5)),
            settings={
                "honor_retry_after": chance.random() < 0.5,
                "probation_counts_attempt": chance.random() < 0.2,
                "probation_ends_events": chance.random() < 0.2,
            },
            steps=tuple(sorted(self._steps, key=lambda each: each.at)),
            heals_at=self._heals_at,
            ends_at=self._heals_at + 9 * DAY,
        )

    def with_long_pause(self, plan: Plan) -> Plan:
        """Pause a subscription before large events, for longer than their payload is kept."""
        topic, name = self._subscriptions[0]
        at = self._heals_at * 0.3
        self._add(at, "act", name=name, method="POST", action="/pause")
        self._add(at + MINUTE / 2, "publish", topic=topic, count=3, size=100_000)
        steps = tuple(sorted(self._steps, key=lambda each: each.at))
        return plan._replace(
            steps=steps,
            heals_at=max(plan.heals_at, at + 5 * DAY),
            ends_at=max(plan.ends_at, at + 14 * DAY),
        )

    def with_leases(self, plan: Plan) -> Plan:
        """Keep servers from renewing their leases; let a standby take over, perhaps a late one."""
        self._chance = chance = Random(f"leases {self._seed}")
        for _ in range(chance.randint(1, 2)):
            topic, name = chance.choice(self._subscriptions)
            at = self._published()
            if chance.random() < 0.7:  # so many that they wait in a line, or for a retry
                behaviour = chance.choice(("slow", "slow", "hangs", "fails"))
                self._add(at - 1, "behave", name=name, behaviour=behaviour, until=at + 2 * MINUTE)
                self._add(at, "publish", topic=topic, count=40, size=0)
                self._add(at + 1, "publish", topic=topic, count=40, size=0)
            at, process = max(at + chance.uniform(-2, 30), 8.0), chance.randrange(plan.processes)
            seconds, before = chance.choice(_BEYOND), chance.choice(("", "", "a request"))
            what: tuple[str, dict[str, Any]] = chance.choice(
                (
                    ("freeze", {"seconds": seconds, "before": before}),
                    ("cut_off", {"seconds": seconds}),
                    ("end", {"down": seconds}),
                )
            )
            self._add(at, what[0], process=process, **what[1])
        for step in chance.sample(self._steps, len(self._steps))[:20]:
            if step.what in ("subscribe", "update"):  # and at once, by perhaps another server
                topic, at = step.args["topic"], step.at + chance.uniform(0.1, 3)
                self._add(max(at, 8.0), "publish", topic=topic, count=3, size=0)
        if chance.random() < 0.5:
            kind = chance.choice(("takes effect late", "fails after"))
            at = self._published() - chance.uniform(0, 10)
            self._storm(at, kind, chance.uniform(0.5, 2) * MINUTE, 0.5, ())
        if chance.random() < 0.5:
            lag = chance.choice((0.0, chance.uniform(0.2, 3), chance.uniform(3, 20)))
            at, away = self._published() + chance.uniform(-lag - 1, 20), chance.uniform(1, 20)
            self._add(max(at, 10.0), "fail_over", lag=lag, away=away)
        return plan._replace(steps=tuple(sorted(self._steps, key=lambda each: each.at)))

    def _add(self, at: float, what: str, **args: Any) -> None:
        self._steps.append(Step(at, what, args))

    def _time(self) -> float:
        return self._chance.uniform(MINUTE, self._heals_at * 0.95)

    def _topic(self, name: str) -> None:
        chance, profile = self._chance, self._chance.choice(sorted(PROFILES))
        self._topics.append(name)
        is_namespace = profile == "ns"
        schema = CLOUD if is_namespace else chance.choice(("EventGridSchema", CLOUD, CUSTOM))
        known = f"shop.{name}" if is_namespace else name
        days = chance.choice((1, 7))
        self._add(
            0.0, "make_topic", name=name, known=known, schema=schema, profile=profile, days=days
        )

    def _subscription(self, name: str, at: float) -> None:
        topic = self._chance.choice(self._topics)
        self._subscriptions.append((topic, name))
        self._add(at, "subscribe", topic=topic, name=name, **self._terms(at))
        for _ in range(self._chance.randint(1, 4)):
            self._behave(name)

    def _terms(self, at: float) -> dict[str, Any]:
        chance = self._chance
        expires = at + chance.uniform(5 * MINUTE, self._heals_at)
        return {
            "kinds": chance.sample(KINDS, chance.randint(1, 3)) if chance.random() < 0.5 else None,
            "attempts": chance.choice((None, 1, 2, 3, 5, 8)),
            "minutes": chance.choice((None, 60, 1440) if self._is_long else (None, 2, 5, 15, 60)),
            "dead_letter": chance.choice((None, "", "", OTHER_ACCOUNT)),
            "batch": chance.choice((1, 1, 5, 20)),
            "converts": chance.random() < 0.3,
            "expires": expires if chance.random() < 0.1 else None,
        }

    def _behave(self, name: str) -> None:
        chance, behaviour = self._chance, self._chance.choice(BEHAVIOURS)
        since = chance.choice((0.0, self._time()))
        lasts = chance.uniform(1, 30) * MINUTE * (20 if self._is_long else 1)
        until = min(since + lasts, self._heals_at)
        if behaviour in _FOR_EVER and chance.random() < 0.3:
            until = float("inf")
        self._add(since, "behave", name=name, behaviour=behaviour, until=until)

    def _change(self) -> None:
        chance, at = self._chance, self._time()
        topic, name = chance.choice(self._subscriptions)
        changes = (self._update, self._update, self._move, self._pause, self._pause)
        others = (self._delete, self._recreate, self._replay, self._more)
        chance.choice((*changes, *others))(at, topic, name)

    def _update(self, at: float, topic: str, name: str) -> None:
        chance = self._chance
        if chance.random() < 0.6:  # just before a retry is due: its process knows the old terms
            at = self._published() + chance.choice(_DUE) + chance.uniform(-8, 2)
        self._add(at, "update", topic=topic, name=name, **self._terms(at))

    def _move(self, at: float, topic: str, name: str) -> None:
        self._add(at, "move", topic=topic, name=name)

    def _pause(self, at: float, _: str, name: str) -> None:
        self._add(at, "act", name=name, method="POST", action="/pause")
        lasts = self._chance.uniform(0.5, 15) * MINUTE * (60 if self._is_long else 1)
        self._add(at + lasts, "act", name=name, method="POST", action="/resume")

    def _delete(self, at: float, topic: str, name: str) -> None:
        self._add(at, "act", name=name, method="DELETE")
        if self._chance.random() < 0.5:
            again = at + self._chance.uniform(0, 10) * MINUTE
            self._add(again, "subscribe", topic=topic, name=name, **self._terms(again))

    def _recreate(self, _: float, topic: str, name: str) -> None:
        """While retries wait."""
        at = self._published()
        self._add(at - 1, "behave", name=name, behaviour="fails", until=at + 3 * MINUTE)
        at += self._chance.uniform(15, 90)
        self._add(at, "act", name=name, method="DELETE")
        at += self._chance.uniform(5, 20)
        self._add(at, "subscribe", topic=topic, name=name, **self._terms(at))

    def _replay(self, at: float, topic: str, name: str) -> None:
        self._add(at, "replay", topic=topic, name=name)
        if self._chance.random() < 0.5:
            again = at + self._chance.uniform(2, 10) * MINUTE
            self._add(again, "replay", topic=topic, name=name)

    def _more(self, at: float, *_: str) -> None:
        self._subscription(f"sub{len(self._subscriptions)}", at)

    def _publish(self) -> None:
        chance, at = self._chance, self._time()
        topic = chance.choice(self._topics)
        count = chance.randint(1, 3) if self._is_long else chance.choice((1, 1, 3, 10, 40))
        size = chance.choice((0, 0, 0, 0, 3_000, 100_000 // count))
        for _ in range(1 if self._is_long else chance.choice((1, 1, 2, 8))):
            self._add(at, "publish", topic=topic, count=count, size=size)
            at += chance.choice((0.0, 0.001, 0.3, 5.0))

    def _near_traffic(self) -> float:
        """Return a time at which something is under way, more often than not."""
        chance = self._chance
        at, kind = self._published() + chance.uniform(-5, 120), chance.random()
        if kind < 0.3:
            at = self._time()
        elif kind < 0.6:  # when a timer runs
            period = chance.choice((MINUTE, 5 * MINUTE))
            at = (at // period + chance.randint(1, 2)) * period + chance.uniform(-1, 3)
        return min(at, self._heals_at * 0.95)

    def _published(self) -> float:
        return self._chance.choice([each.at for each in self._steps if each.what == "publish"])

    def _event(self) -> tuple[float, str]:
        """Return when an event is published, and a subscription that may get it."""
        step = self._chance.choice([each for each in self._steps if each.what == "publish"])
        names = [name for topic, name in self._subscriptions if topic == step.args["topic"]]
        return step.at, self._chance.choice(names or [self._subscriptions[0][1]])

    def _fault(self) -> None:
        at, process = self._near_traffic(), self._chance.randrange(self._processes)
        faults = (self._any_storm, self._any_storm, self._any_storm, self._any_kill, self._any_kill)
        others = (self._freeze, self._jump, self._outage, self._slow_timer, self._dark)
        self._chance.choice((*faults, *others))(at, process)

    def _any_storm(self, at: float, _: int) -> None:
        chance = self._chance
        storm = chance.choice(STORMS)
        ports = ("queues",) if storm == "stored twice" else chance.choice(_HIT)
        lasts = chance.uniform(0.2, 6) * MINUTE * (5 if self._is_long else 1)
        share = 1.0 if storm == "outage" else chance.choice((0.05, 0.3, 0.9))
        self._storm(at, storm, lasts, share, ports)

    def _any_kill(self, at: float, process: int) -> None:
        self._kill(at, process, self._chance.choice((0, 0, 0, -3600, 3600, 5, 86400)))

    def _freeze(self, at: float, process: int) -> None:
        seconds = self._chance.choice((5, 90, 400, 700, 1800))
        self._add(at, "freeze", process=process, seconds=seconds, before="")

    def _jump(self, at: float, process: int) -> None:
        by = self._chance.choice((-7200, -60, -8, 8, 60, 7200, 100_000))
        self._add(at, "jump", process=process, by=by)

    def _outage(self, *_: float) -> None:
        """After a receive, for as long as an app tries to store what follows, or longer."""
        at, name = self._event()
        self._add(at - 1, "behave", name=name, behaviour="fails", until=at + MINUTE)
        at, lasts = at + self._chance.uniform(0.2, 3), self._chance.uniform(125, 200)
        self._storm(at, "outage", lasts, 1.0, ("queues", "documents"))

    def _slow_timer(self, *_: float) -> None:
        """Dead letters are written while storage is slow or fails; the process may freeze."""
        chance = self._chance
        at, name = self._event()
        self._add(at - 1, "behave", name=name, behaviour="404", until=at + MINUTE)
        at = (at // 300 + 2) * 300
        storm = chance.choice(("slow", "slow", "fails before"))
        self._storm(at, storm, MINUTE, 0.9, chance.choice((("dead_letters",), (), ())))
        if storm == "slow":  # until another process has received, and written, the same
            at, lasts = at + chance.uniform(0.5, 25), chance.uniform(905, 1200)
            if at < self._heals_at:
                self._add(at, "freeze", process=0, seconds=lasts, before="queues.replace")

    def _dark(self, at: float, process: int) -> None:
        """A process whose clock is slow starts, and no answer has a time."""
        self._kill(at, process, -3600)
        self._storm(at, "untimed", self._chance.uniform(3, 9) * MINUTE, 1.0, ())

    def _kill(self, at: float, process: int, skew: float) -> None:
        chance = self._chance
        requests, down = chance.randrange(20), chance.choice((0.5, 5.0, 60.0, 900.0))
        again = chance.choice((0, 0, 1, 3))
        self._add(at, "kill", process=process, requests=requests, down=down, again=again, skew=skew)

    def _storm(
        self, at: float, kind: str, lasts: float, share: float, ports: tuple[str, ...]
    ) -> None:
        until = min(at + lasts, self._heals_at)
        self._add(at, "storm", kind=kind, until=until, share=share, ports=ports)
