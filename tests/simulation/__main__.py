"""Plays a deployment in simulated time: `python -m tests.simulation --seed 7`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence

from tests.simulation.plan import draw_plan
from tests.simulation.runs import WORLDS, command, play, play_all, shrink
from tests.simulation.world import Result

MOST = 12  # findings that are printed
TELL_EVERY = 100  # seeds
_TOLD = (
    "FOUND",
    "starts",
    "is killed",
    "ends itself",
    "is frozen",
    "goes on",
    "clock jumps",
    "all is well",
)


def main(arguments: Sequence[str]) -> int:
    """Play seeds; return 1 if any finds something."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="play this one, and tell of what it finds")
    parser.add_argument("--log", action="store_true", help="print all that happens in it")
    parser.add_argument("--seeds", type=int, default=60, help="how many to play, if none is named")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--until-red", action="store_true", help="end at the first that is")
    parser.add_argument("--home", choices=WORLDS, help="what runs the app; by default each")
    given = parser.parse_args(arguments)
    if given.seed is None:
        seeds = range(given.first, given.first + given.seeds)
        homes = [given.home] if given.home else WORLDS
        return max([_play_many(seeds, each, until_red=given.until_red) for each in homes])
    result = play(draw_plan(given.seed, given.home or "functions"), tells=given.log)
    for at, text, _ in result.story:
        print(f"{at:12.3f} {text}")
    return _report(result)


def _play_many(seeds: Sequence[int], home: str, *, until_red: bool) -> int:
    played: Iterable[Result]
    began, promised, seconds, red = time.monotonic(), 0, 0.0, list[Result]()
    seen = Counter[str]()
    if until_red:  # Those with few events are the quickest.
        played = map(
            play, sorted((draw_plan(each, home) for each in seeds), key=lambda each: each.events)
        )
    else:
        played = play_all(seeds, os.cpu_count() or 1, home)
    for number, result in enumerate(played, 1):
        if number % TELL_EVERY == 0:
            print(f"{home}: {number} of {len(seeds)} seeds", file=sys.stderr, flush=True)
        promised += result.promised
        seconds += result.seconds
        seen += result.seen
        if result.findings:
            red.append(result)
            print(f"seed {result.plan.seed}: {', '.join(sorted(result.kinds))}", flush=True)
            if until_red:
                return 1
    took = time.monotonic() - began
    print(f"{home}: {len(seeds)} seeds, {len(red)} red, {seconds / 3600:.0f} simulated hours")
    print(f"{promised} promised deliveries, {promised / took * 60:.0f} a minute")
    print(", ".join(f"{kind} {times}" for kind, times in sorted(seen.items())))
    for result in red:
        print(f"See more: {command(result.plan)}")
    return 1 if red else 0


def _report(result: Result) -> int:
    """Print what was found, how to repeat it, a smaller plan, and its first event's story."""
    if not result.findings:
        print(f"seed {result.plan.seed}: {result.promised} promised deliveries, nothing found")
        return 0
    for each in result.findings[:MOST]:
        print(f"{each.at:12.3f} {each.kind}: {each.subscription} {each.number} {each.what}")
    print(f"Repeat it: {command(result.plan)} --log")
    plan = shrink(result)
    told = play(plan, tells=True)
    same = [each for each in told.findings if each.kind in result.kinds]
    print(f"With {len(plan.steps)} steps instead of {len(result.plan.steps)}:")
    for step in plan.steps:
        print(f"{step.at:12.3f} {WORLDS[plan.home].told(step)}")
    print("The story:")
    for at, text, numbers in told.story:
        if same[0].number in numbers or any(each in text for each in _TOLD):
            print(f"{at:12.3f} {text}")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
