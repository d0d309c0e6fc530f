"""Derives the storage operations and times of each step from the counts of whole scenarios."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bench.scenario import an_event
from shared.delivery.messages.packing import pack

Document = Mapping[str, Any]
Steps = dict[str, dict[str, float]]


def steps(scenarios: Mapping[str, Document]) -> Steps:
    """
    Return storage operations by step and kind; *scenarios* are those of the measuring run.

    A queue, container or table belongs to one step, so its requests are divided by how often that
    step was done. Periodic requests (subscriptions, health, counts) are given per second of a
    process that is awake.
    """
    single, dead = scenarios["single"], scenarios["dead letters"]
    waits, parked = scenarios["long waits"], scenarios["64 KiB in tens, to three"]
    failing, idle = scenarios["failing"], scenarios["idle"]
    awake = scenarios["one at a time"]
    failed_runs = failing["operations"]["queue put retries"]
    hours = idle["watched"] / 3600
    return {
        "delivery message": _each(
            single, "deliveries", single["operations"]["queue put deliveries"]
        ),
        "retry message": _each(failing, "retries", failed_runs),
        "long wait": _each(waits, "waiting", waits["operations"]["queue put waiting"]),
        "parked request": {
            "blob write payloads": _per(parked, "blob write payloads", parked["publish runs"])
        },
        "parked message": {
            "blob read payloads": _per(
                parked, "blob read payloads", parked["operations"]["queue put deliveries"]
            )
        },
        # Those that end together share a write: how many do is a matter of speed.
        "failed run": {"table write attempts": 1.0},
        "dead letter message": _each(
            dead, "deadletters", dead["operations"]["queue put deadletters"]
        )
        | {
            "table query eventsubscriptions": _per(
                dead, "table query eventsubscriptions", dead["operations"]["queue put deadletters"]
            )
        },
        "second awake": {
            kind: round(count / awake["seconds"], 4)
            for kind, count in awake["operations"].items()
            if kind.startswith("table ") and "create" not in kind
        }
        | {"queue get": _per(idle, "queue get deliveries", idle["seconds"])},
        "idle hour": {
            kind: round(count / hours, 2)
            for kind, count in idle["operations"].items()
            if kind
            not in {"queue get deliveries", "queue get retries"}  # on Azure no instance polls them
        },
    }


def runs(scenarios: Mapping[str, Document]) -> dict[str, float]:
    """
    Return the times of runs, in seconds.

    A publish run takes ``publish`` + ``publish event`` for each event after the first + ``publish
    message`` for each message after the first; a delivery run ``deliver`` + ``deliver event``
    likewise, with an endpoint that answers in 0.1 s. ``cpu event`` is the processor time for each
    event of a run. ``stored byte`` is how many bytes of a message a byte of an event takes,
    ``endpoint`` how long endpoints took.
    """
    one, ten, many = (
        scenarios[name] for name in ("one at a time", "one at a time, to ten", "64 at a time")
    )
    per_message = (ten["publish seconds"] - one["publish seconds"]) / (ten["subscriptions"] - 1)
    parts = many["deliver runs"] / many["publish runs"]
    per_event = many["publish seconds"] - one["publish seconds"] - (parts - 1) * per_message
    together = many["pushes"] / many["deliver runs"]
    delivering = (many["deliver seconds"] - one["deliver seconds"]) / (together - 1)
    cpu_event = _cpu_event(scenarios["single"], scenarios["hundreds"])
    text = json.dumps(an_event(), separators=(",", ":"))
    return {
        "publish": one["publish seconds"],
        "publish event": round(max(0.0, per_event) / (many["batch"] - 1), 6),
        "publish message": round(max(0.0, per_message), 6),
        "deliver": one["deliver seconds"],
        "deliver event": round(max(0.0, delivering), 6),
        "cpu event": round(cpu_event, 6),
        "stored byte": round(len(pack([text])) / len(text), 3),
        "endpoint": one["answers_in"],
    }


def _cpu_event(single: Document, many: Document) -> float:
    """Solve for y: CPU time = runs · x + handled events · y, for single events and for hundreds."""
    samples = []
    for each in (single, many):
        handled = each["events"] + each["pushes"]
        samples.append((each["publish runs"] + each["deliver runs"], handled, each["cpu"]))
    (runs_1, events_1, cpu_1), (runs_2, events_2, cpu_2) = samples
    y: float = (runs_1 * cpu_2 - runs_2 * cpu_1) / (runs_1 * events_2 - runs_2 * events_1)
    return max(y, 0.0)


def _each(scenario: Document, queue: str, messages: int) -> dict[str, float]:
    """Return the operations on a queue for one of its messages."""
    return {
        kind: _per(scenario, kind, messages)
        for kind in (f"queue {verb} {queue}" for verb in ("put", "get", "delete", "update"))
        if kind in scenario["operations"]
    }


def _per(scenario: Document, kind: str, times: float) -> float:
    count: int = scenario["operations"].get(kind, 0)
    return round(count / times, 4)
