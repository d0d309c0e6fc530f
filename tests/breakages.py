"""
Breaks the app on purpose, and shows that the soak's ledger sees it: `python -m tests.breakages`.

Each breakage is an edit of one place in a copy of the app, which a short soak attacks. The ledger
must count it in the column that is named here. Names as arguments choose among the breakages.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from bench.soak import operators
from bench.soak.azurite_deployment import Stage
from bench.soak.kills import killed_at
from bench.soak.ledger import LedgerSums
from bench.soak.soak_deployment import Attacked, SoakDeployment, Step, one_after_the_other
from bench.soak.state import table
from tests.package_list import ROOT, package_list

_SECONDS = 6.0  # of traffic


class Breakage(NamedTuple):
    """In *file*, *old* becomes *new*; then the *steps* count deliveries in *column*."""

    column: str
    file: str
    old: str
    new: str
    steps: Sequence[Step[Any]]


def _publish(deployment: SoakDeployment) -> Attacked:
    with deployment.traffic.flowing():
        time.sleep(_SECONDS)
    return Attacked(1)


_QUIET = (Step("no attack", _publish),)
_KILLED = [killed_at("queue put retries", "before", place) for place in (1, 2)]
_PAUSE, _REPLAY, _AGAIN = operators.steps(Random(0))

BREAKAGES = {
    "one part skipped": Breakage(
        "lost",
        "shared/engine/delivering/deliver.py",
        "found[0].key)\n        return found\n",
        "found[0].key)\n        return found[:-1] or found\n",
        _QUIET,
    ),
    "a commit's last message dropped": Breakage(
        "lost",
        "shared/engine/publishing/commit.py",
        "        puts = await self.sender.put_all(Queue.DELIVERIES, texts)\n",
        "        puts = [*await self.sender.put_all(Queue.DELIVERIES, texts[:-1] or texts), None]\n"
        "        puts = puts[: len(texts)]\n",
        _QUIET,
    ),
    "a retry stored after its message went": Breakage(
        "lost",
        "shared/engine/keeping/put_settling.py",
        "            await _all_stored("
        "self._store(each, repeat_for) for each in together.values())\n",
        "            for each in together.values():\n"
        "                asyncio.get_running_loop().call_later(\n"
        "                    2, asyncio.ensure_future, self._store(each, repeat_for)\n"
        "                )\n",
        (Step("kill -9: queue put retries", one_after_the_other(_KILLED)),),
    ),
    "a wrong end": Breakage(
        "wrong_ends",
        "shared/delivery/policy.py",
        "    if _is_final(outcome, terms):\n",
        "    if _is_final(outcome, terms) or outcome.status == 503:\n",
        _QUIET,
    ),
    "an end after one attempt too few": Breakage(
        "wrong_ends",
        "shared/delivery/policy.py",
        "self.max_attempts is None or attempts < self.max_attempts\n",
        "self.max_attempts is None or attempts < self.max_attempts - 1\n",
        _QUIET,
    ),
    "a changed byte": Breakage(
        "changed",
        "shared/delivery/requests/push_request.py",
        "else bodies[0]\n",
        "else bodies[0]\n    body = body.replace(b'0.1', b'0.2')\n",
        _QUIET,
    ),
    "a filter ignored": Breakage(
        "strays",
        "shared/subscriptions/filters.py",
        "        prefix, suffix = self.subject_begins_with, self.subject_ends_with\n",
        "        prefix, suffix = '', self.subject_ends_with\n",
        _QUIET,
    ),
    "each message stored twice": Breakage(
        "beyond",
        "shared/engine/publishing/commit.py",
        "await self.sender.put_all(Queue.DELIVERIES, texts)",
        "(await self.sender.put_all(Queue.DELIVERIES, texts * 2))[: len(texts)]",
        _QUIET,
    ),
    "a pause ignored": Breakage(
        "while_paused",
        "shared/arm/subscription_codec.py",
        "pause=to_pause(stored)",
        "pause=None",
        (_PAUSE,),
    ),
    "a replay that forgets what it sent": Breakage(
        "strays",
        "shared/engine/replaying/batches.py",
        "        if number in self.replayed:\n",
        "        if number in ():\n",
        (_REPLAY, _AGAIN),
    ),
}


def broken(breakage: Breakage, folder: Path) -> None:
    """Copy the app into *folder*, and break it."""
    for path in package_list():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, folder / path)
    file = folder / breakage.file
    file.write_text(file.read_text().replace(breakage.old, breakage.new))


def play(breakage: Breakage) -> list[LedgerSums]:
    """Play the steps on an app that is broken."""
    with tempfile.TemporaryDirectory() as name:
        broken(breakage, Path(name))
        with Stage(root=Path(name)).deployed(Random(1)) as deployment:
            return [deployment.play(step) for step in breakage.steps]


def main(names: Sequence[str]) -> int:
    """Print a table for each breakage; returns 1 if the ledger does not see one of them."""
    unseen = []
    for name in names or BREAKAGES:
        rows = play(BREAKAGES[name])
        is_seen = any(getattr(row, BREAKAGES[name].column) for row in rows)
        unseen += [] if is_seen else [name]
        print(f"{name}: {'seen' if is_seen else 'NOT SEEN'} ({BREAKAGES[name].column})")
        print(table(rows), flush=True)
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
