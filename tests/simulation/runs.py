"""Plays many seeds beside each other, and makes the plan of a red one smaller."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from multiprocessing import get_context

from tests.simulation.ledger import Finding
from tests.simulation.plan import Plan, Step, draw_plan
from tests.simulation.postgres_world import PostgresWorld
from tests.simulation.sqlite_world import SqliteWorld
from tests.simulation.world import Result, World

SEEDS_OF_A_PROCESS = 50
WORLDS = {"functions": World, "sqlite": SqliteWorld, "postgres": PostgresWorld}
SHRINKS = 120  # simulations, at most


def play(plan: Plan, *, tells: bool = False) -> Result:
    """Play a plan. What it leaves is collected afterwards: nothing of it runs in the next one."""
    was_enabled = gc.isenabled()
    gc.disable()
    gc.freeze()  # what there is already, so that it need not be searched
    try:
        return WORLDS[plan.home](plan, tells=tells).play()
    finally:
        hook, sys.unraisablehook = sys.unraisablehook, lambda _: None  # of what was killed
        gc.collect()
        sys.unraisablehook = hook
        if was_enabled:
            gc.enable()


def command(plan: Plan) -> str:
    """Return what plays it again."""
    return f"python -m tests.simulation --home {plan.home} --seed {plan.seed}"


def first_findings(results: Iterable[Result]) -> dict[str, Finding]:
    """Return by the command that plays it again what each red one found first."""
    return {command(each.plan): each.findings[0] for each in results if each.findings}


def not_seen(kinds: Iterable[str], results: Iterable[Result]) -> list[str]:
    """Return the kinds of faults and changes that took effect in none of the results."""
    seen = sum((each.seen for each in results), Counter[str]())
    return sorted(each for each in kinds if not seen[each])


def play_seed(seed: int, home: str = "functions") -> Result:
    return play(draw_plan(seed, home))


def play_all(seeds: Iterable[int], workers: int, home: str = "functions") -> Iterator[Result]:
    """Play seeds in processes of their own; their results come in order."""
    with get_context("spawn").Pool(workers, maxtasksperchild=SEEDS_OF_A_PROCESS) as pool:
        yield from pool.imap(partial(play_seed, home=home), seeds)


def shrink(red: Result, *, most: int = SHRINKS) -> Plan:
    """Return the plan with fewer steps and events, while it finds the same kind."""
    kinds, plan = red.kinds, red.plan
    size, start = max(len(plan.steps) // 2, 1), 0
    for _ in range(most):
        if start >= len(plan.steps):
            size, start = size // 2, 0
        if not size:
            break
        smaller = plan._replace(steps=plan.steps[:start] + plan.steps[start + size :])
        if kinds & play(smaller).kinds:
            plan = smaller
        else:
            start += size
    fewer = plan._replace(steps=tuple(map(_one_event, plan.steps)))
    return fewer if kinds & play(fewer).kinds else plan


def _one_event(step: Step) -> Step:
    return step._replace(args=step.args | {"count": 1}) if step.what == "publish" else step
