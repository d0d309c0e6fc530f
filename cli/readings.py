"""Reads what happens in a deployment again and again: rates, queues, holds and failures."""

from __future__ import annotations

import re
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from cli.deployment import Deployment, subscription_path
from cli.failure import REFUSED, CommandFailed
from cli.status import Troubles, read_troubles

COUNTED = {  # the counters by their names in JSON, with the words for people
    "published": ("pushgrid_publish_success_total", "PUBLISHED"),
    "delivered": ("pushgrid_delivery_success_total", "DELIVERED"),
    "failed": ("pushgrid_delivery_attempt_fail_total", "FAILED ATTEMPTS"),
    "deadLettered": ("pushgrid_dead_lettered_events_total", "DEAD-LETTERED"),
    "dropped": ("pushgrid_dropped_events_total", "DROPPED"),
}
MOST_FAILURES = 10
_MOST_ASKED = 5  # subscriptions whose failures one reading asks for
_WINDOW_SECONDS = 60.0  # counts are stored every ten seconds: shorter rates would jump
_AT_FIRST, _LATER = timedelta(hours=1), timedelta(minutes=2)  # how old new failures may be
_SAMPLE = re.compile(r"(\w+)\{(.*)\} (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

Failure = Mapping[str, Any]
_Failing = Counter[tuple[str, str]]


class Reading(NamedTuple):
    """A deployment at one moment."""

    health: Mapping[str, Any]  # the answer of ``status/health``
    found: Troubles  # what is wrong, held and waits
    totals: Mapping[str, float]  # events since the deployment began, by the names of `COUNTED`
    # Events a second over the last minute at most; ``None``: at the first reading.
    rates: Mapping[str, float] | None
    failures: Sequence[Failure]  # the latest first

    @property
    def status(self) -> str:
        """The word for all of it."""
        return self.found.overall(self.health["status"])

    @property
    def document(self) -> dict[str, Any]:
        """The reading as JSON members."""
        return {
            "at": self.health["checkedAt"],
            "status": self.status,
            **{name: self.health[name] for name in ("reasons", "queues")},
            **self.found._asdict(),
            **{name: getattr(self, name) for name in ("rates", "totals", "failures")},
        }


class _Sample(NamedTuple):
    at: float
    totals: Mapping[str, float]
    failing: _Failing  # failed attempts by topic and subscription


@dataclass(slots=True)
class Readings:
    """
    Readings of one deployment.

    A reading takes three requests, and one more for each of up to five subscriptions whose attempts
    have failed within the last minute; the first asks for those that are held, and that have failed
    most.
    """

    deployment: Deployment
    clock: Callable[[], float] = time.monotonic
    _samples: deque[_Sample] = field(default_factory=deque)
    _failures: dict[tuple[Any, ...], Failure] = field(default_factory=dict)

    def read(self) -> Reading:
        """
        Return the next reading.

        Raises:
            CommandFailed: the deployment or its storage did not answer, or it refused.
        """
        health = self.deployment.status("health")
        if "queues" not in health:
            raise CommandFailed("; ".join(health["reasons"]), REFUSED, 503)
        sample = _sample(self.clock(), self.deployment.metrics())
        first = self._first(sample.at)
        found = read_troubles(self.deployment)
        held = {_folded((each["topic"], each["subscription"])) for each in found.holds}
        new = sample.failing - first.failing if first else sample.failing
        since = datetime.fromisoformat(health["checkedAt"]) - (_LATER if first else _AT_FIRST)
        # Those that are held have failed of late.
        failing = sorted(new, key=lambda each: (_folded(each) in held, new[each]), reverse=True)
        failures = self._read_failures(failing[:_MOST_ASKED], since)
        self._samples.append(sample)
        rates = _rates(sample, first) if first else None
        return Reading(health, found, sample.totals, rates, failures)

    def _read_failures(
        self, failing: Iterable[tuple[str, str]], since: datetime
    ) -> Sequence[Failure]:
        for topic, subscription in failing:
            path = f"{subscription_path(topic, subscription)}/failures"
            query = {"since": since.astimezone(UTC).isoformat(), "$top": MOST_FAILURES}
            for each in self.deployment.get(path, **query)["value"]:
                key = topic, subscription, each["systemId"], each["number"]
                self._failures[key] = {"topic": topic, "subscription": subscription, **each}
        latest = sorted(self._failures.items(), key=lambda item: item[1]["at"], reverse=True)
        self._failures = dict(latest[:MOST_FAILURES])
        return list(self._failures.values())

    def _first(self, now: float) -> _Sample | None:
        """Return the sample that the window begins with, and forget those before it."""
        while len(self._samples) > 1 and now - self._samples[1].at >= _WINDOW_SECONDS:
            self._samples.popleft()
        return self._samples[0] if self._samples else None


def _folded(names: tuple[str, str]) -> tuple[str, str]:
    return names[0].lower(), names[1].lower()


def _sample(at: float, exposition: str) -> _Sample:
    totals = dict.fromkeys(COUNTED, 0.0)
    names = {metric: name for name, (metric, _) in COUNTED.items()}
    failing: _Failing = Counter()
    for line in exposition.splitlines():
        found = _SAMPLE.fullmatch(line)
        if found and (name := names.get(found[1])):
            totals[name] += float(found[3])
            if name == "failed":
                labels = dict(_LABEL.findall(found[2]))
                failing[labels["topic"], labels["subscription"]] += int(float(found[3]))
    return _Sample(at, totals, failing)


def _rates(now: _Sample, then: _Sample) -> dict[str, float]:
    seconds = max(now.at - then.at, 1e-3)
    return {
        # Totals of a deleted subscription are forgotten in time: no rate is negative.
        name: round(max(total - then.totals[name], 0) / seconds, 2)
        for name, total in now.totals.items()
    }
