"""
Plants bugs, and shows that the simulation sees them: `python -m tests.simulation.planted [NAME …]`.

Each is an edit of one place in a copy of the app. Seeds are played on it until one finds what the
app itself does not.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import NamedTuple

from tests.package_list import ROOT, package_list

SEEDS = 100  # in which it has to be seen
SIDE_BY_SIDE = 2


class Planted(NamedTuple):
    """In *file*, *old* becomes *new*; *seed* sees it, or *unseen* says why none of 100 does."""

    file: str
    old: str
    new: str
    seed: int | None = None  # the first, where those with few events come first
    unseen: str = ""
    home: str = "functions"  # on which it is played
    also: Sequence[tuple[str, str, str]] = ()  # other places: what is said twice goes twice


_DELIVERING, _TIMERS = "shared/engine/delivering", "shared/engine/timers"
_SQL = "shared/adapters/sql"
_POSTGRES = f"{_SQL}/postgres"

PLANTED = {
    "one part of a message skipped": Planted(
        f"{_DELIVERING}/deliver.py",
        "        self.clock_records.record_all(bounds, found[0].key)\n        return found\n",
        "        return found[:-1] or found\n",
        seed=79,
    ),
    "a commit's last message dropped": Planted(
        "shared/engine/publishing/commit.py",
        "        puts = await self.sender.put_all(Queue.DELIVERIES, texts)\n",
        "        puts = [*await self.sender.put_all(Queue.DELIVERIES, texts[:-1] or texts), None]\n"
        "        puts = puts[: len(texts)]\n",
        seed=89,
    ),
    "a put that may have failed counts as stored": Planted(
        "shared/engine/keeping/requeue.py",
        "                if isinstance(put, StorageUnavailable):\n",
        "                if False:\n",
        seed=56,
    ),
    "patience by the wall clock": Planted(
        "shared/engine/keeping/requeue.py",
        "        give_up_at = loop_time() + repeat_for.total_seconds()\n",
        "        loop_time = lambda: self.clock.now().timestamp()\n"
        "        give_up_at = loop_time() + repeat_for.total_seconds()\n",
        unseen="what lets puts fail is a cause for a repeat, and no app's clock goes back",
    ),
    "an end by 503": Planted(
        "shared/delivery/policy.py",
        "    if _is_final(outcome, terms):\n",
        "    if _is_final(outcome, terms) or outcome.status == 503:\n",
        seed=19,
    ),
    "an end after one attempt too few": Planted(
        "shared/delivery/policy.py",
        "self.max_attempts is None or attempts < self.max_attempts\n",
        "self.max_attempts is None or attempts < self.max_attempts - 1\n",
        seed=19,
    ),
    "an attempt too many": Planted(
        "shared/delivery/policy.py",
        "self.max_attempts is None or attempts < self.max_attempts\n",
        "self.max_attempts is None or attempts <= self.max_attempts\n",
        seed=79,
    ),
    "a status retried that ends": Planted(
        "shared/delivery/policy.py",
        "    return outcome.status in terms.rules.never_retried\n",
        "    return outcome.status == 400\n",
        seed=89,
    ),
    "a step of the schedule twice": Planted(
        "shared/delivery/policy.py",
        "schedule.wait_after(delivery.attempts, age",
        "schedule.wait_after(max(delivery.attempts - 1, 1), age",
        seed=19,
    ),
    "a status without its least wait": Planted(
        "shared/delivery/policy.py",
        '        waits.append((minimum, f"minimum for',
        '        waits.append((minimum / 4, f"minimum for',
        seed=19,
    ),
    "a wait that chance shortens": Planted(
        "shared/delivery/policy.py",
        "terms.scaled(wait + spread * jitter)",
        "terms.scaled(wait - spread * jitter)",
        seed=38,
    ),
    "a time to live that is not asked": Planted(
        "shared/delivery/policy.py",
        "    if terms.age(delivery, now) >= terms.time_to_live:\n",
        "    if terms.age(delivery, now) >= terms.time_to_live * 4:\n",
        seed=89,
    ),
    "an end by a cached time to live": Planted(
        f"{_DELIVERING}/judge.py",
        "        return None if judged is None or judged.ended else judged\n",
        "        return judged\n",
        seed=46,
    ),
    "an end that is not confirmed": Planted(
        f"{_DELIVERING}/settle.py",
        "        return part.confirmed[1]\n",
        "        return True\n",
        unseen="an update has to fall between cached terms and an end: test_ends.py does",
    ),
    "a filter ignored": Planted(
        "shared/subscriptions/filters.py",
        "        if types is not None and values.event_type not in types:\n"
        "            return False\n",
        "",
        seed=19,
    ),
    "each message stored twice": Planted(
        "shared/engine/publishing/commit.py",
        "await self.sender.put_all(Queue.DELIVERIES, texts)",
        "(await self.sender.put_all(Queue.DELIVERIES, texts * 2))[: len(texts)]",
        seed=79,
    ),
    "a pause ignored": Planted(
        "shared/arm/subscription_codec.py",
        "pause=to_pause(stored)",
        "pause=None",
        seed=99,
    ),
    "a replay that forgets what it sent": Planted(
        "shared/engine/replaying/batches.py",
        "        if number in self.replayed:\n",
        "        if number in ():\n",
        seed=69,
    ),
    "what is known serves for an hour": Planted(
        "shared/engine/caching/cache.py",
        "PERIODS = 2  #",
        "PERIODS = 720  #",
        seed=25,
    ),
    "a generation that is not compared": Planted(
        "shared/subscriptions/subscription.py",
        "        return self.is_restored or generation in (self.generation, UNMATCHED)\n",
        "        return True\n",
        seed=19,
    ),
    "a payload deleted early": Planted(
        "shared/engine/keeping/deployment_terms.py",
        "        return max(2 * longest, LEAST_KEPT)\n",
        "        return longest / 8\n",
        seed=79,
    ),
    "two writers of one dead letter": Planted(
        f"{_TIMERS}/dead_letters.py",
        "        if renewed is None:\n            del left[number]\n",
        "        renewed = renewed or receipt\n"
        "        if renewed is None:\n            del left[number]\n",
        seed=38,
    ),
    "a wake that forgets the due time": Planted(
        f"{_TIMERS}/wake.py",
        "            again = [replace(each, due=due) for each in parts]\n",
        "            again = [replace(each, due=None) for each in parts]\n",
        seed=89,
    ),
    "a wake that deletes first": Planted(
        f"{_TIMERS}/wake.py",
        "        if parts := merged(each.parts for each in group):\n",
        "        self.intake.delete_all(Queue.WAITING, group)\n"
        "        if parts := merged(each.parts for each in group):\n",
        seed=46,
    ),
    "a wake that doubles copies": Planted(
        f"{_TIMERS}/wake.py",
        "        kept = without_copies([each.parts for each in taken])\n",
        "        kept = [each.parts for each in taken]\n",
        seed=59,
    ),
    "a time of publication that is cut and stored": Planted(
        "shared/engine/keeping/clock_records.py",
        "Bounds(self.clock.now(), corrects=self.clock.is_trusted)",
        "Bounds(self.clock.now(), corrects=True)",
        seed=97,
    ),
    "a wrong clock that is believed": Planted(
        "shared/watched_clock.py",
        "        return self._doubt is None\n",
        "        return True\n",
        seed=97,
    ),
    "a dead letter deleted before its blob": Planted(
        f"{_TIMERS}/dead_letters.py",
        "        with _destination():\n            blobs = self._store(target, reserved, path)\n",
        "        for ready in reserved:\n"
        "            self.receiver.delete(Queue.DEADLETTERS, left[ready.number].received)\n"
        "        with _destination():\n            blobs = self._store(target, reserved, path)\n",
        seed=49,
    ),
    "a failed part forgotten": Planted(
        f"{_DELIVERING}/deliver.py",
        "                if len(parts) == 1 or not await self._store_apart(part, settler):\n",
        "                if len(parts) == 1:\n",
        seed=28,
    ),
    "a late answer that takes back too much": Planted(
        "shared/engine/keeping/requeue.py",
        "    left = tuple(parts)\n    if not left:\n",
        "    left = tuple(parts)\n    if True:\n",
        seed=46,
    ),
    "an answer before the commit": Planted(
        "shared/engine/publishing/publish.py",
        "            await self.commits.commit(publication)\n",
        "            import asyncio\n"
        "            asyncio.get_running_loop().create_task(self.commits.commit(publication))\n",
        seed=46,
    ),
    "what was held forgotten": Planted(
        f"{_DELIVERING}/settle.py",
        "                self._keep(part, due, [kept], is_held=True)\n",
        "                self._flush_soon()\n",
        seed=69,
    ),
    "dead letters to another account": Planted(
        f"{_TIMERS}/dead_letters.py",
        "            stored = self.store.write(target.destination, path, *written)\n",
        "            there = replace(target.destination, account='testing')\n"
        "            stored = self.store.write(there, path, *written)\n",
        seed=79,
    ),
    "a dead letter that counts attempts wrongly": Planted(
        "shared/deadletter/record.py",
        '        "deliveryAttempts": delivery.attempts,\n',
        '        "deliveryAttempts": delivery.attempts + 7,\n',
        seed=79,
    ),
    "pushes to the first endpoint for ever": Planted(
        f"{_DELIVERING}/push.py",
        "            exchange = await self.pusher.send(",
        "            first = globals().setdefault('_FIRST', {})\n"
        "            outbound = outbound._replace(url=first.setdefault(part.key, outbound.url))\n"
        "            exchange = await self.pusher.send(",
        seed=19,
    ),
    "an expiry ignored": Planted(
        "shared/subscriptions/subscription.py",
        "        return self.expires_at is not None and self.expires_at <= now\n",
        "        return False\n",
        seed=22,
    ),
    "a replay of every other record": Planted(
        "shared/engine/replaying/batches.py",
        "            batch.texts.append(text)\n            batch.records.append(number)\n",
        "            if number % 2:\n                return\n"
        "            batch.texts.append(text)\n            batch.records.append(number)\n",
        seed=56,
    ),
    "waits six times as long": Planted(
        "shared/delivery/policy.py",
        "terms.scaled(wait + spread * jitter)",
        "terms.scaled((wait + spread * jitter) * 6)",
        seed=89,
    ),
    "a settled part that comes again after a kill": Planted(
        f"{_SQL}/claiming.py",
        "    text = open_text(body.decode(), open_keys(writing, number))\n",
        "    text = body.decode()\n",
        seed=56,
        home="sqlite",
    ),
    "a retry's timer forgotten": Planted(
        f"{_SQL}/settling.py",
        "            if answer in (Answer.SETTLED, None):  # after",
        "            if answer is None:  # after",
        seed=19,
        home="sqlite",
    ),
    "parked rows that a resume does not free": Planted(
        f"{_SQL}/store.py",
        "        if table in (Table.EVENT_SUBSCRIPTIONS, Table.ENDPOINT_HEALTH):\n",
        "        if table is Table.ENDPOINT_HEALTH:\n",
        seed=56,
        home="sqlite",
    ),
    "an answer before COMMIT": Planted(
        f"{_SQL}/sender.py",
        "                faults, run = await self._store("
        "queue, legal, is_due=visible_in <= _NO_WAIT)\n",
        "                import asyncio\n"
        "                storing = self._store(queue, legal, is_due=visible_in <= _NO_WAIT)\n"
        "                asyncio.get_running_loop().create_task(storing)\n"
        "                faults, run = {}, self._database.run\n",
        seed=71,
        home="sqlite",
    ),
    "commits that are not synced": Planted(
        f"{_SQL}/sqlite/connection.py",
        '"synchronous = FULL"',
        '"synchronous = NORMAL"',
        19,
        home="sqlite",
    ),
    "a start without the checkpoint": Planted(
        f"{_SQL}/sqlite/connection.py",
        "            self._prepare()\n            self.make_safe()\n",
        "            self._prepare()\n",
        unseen="power has to fail after failed sync, start, commit: test_durability.py does",
        home="sqlite",
    ),
    "an end by terms that were replaced": Planted(
        f"{_SQL}/settling.py",
        "if changed := [each for each in steps.conditions if not _is_unchanged(writing, each)]:",
        "if changed := []:",
        unseen="an update has to fall between re-read and commit: test_settling.py does",
        home="sqlite",
    ),
    "what a dead process had in hand left to it": Planted(
        f"{_SQL}/hand.py",
        "        self.next_due: datetime | None = moment(0)  # at a start something may be\n",
        "        self.next_due: datetime | None = None\n",
        seed=8,
        home="sqlite",
    ),
    "a doubtful commit that is not looked for": Planted(
        f"{_SQL}/leases.py",
        "            hand.doubt(each.number for each in messages[:reserved])\n",
        "            pass\n",
        unseen="a failed sync has to leave what is in hand: test_leases.py does",
        home="sqlite",
    ),
    "rows of parts that stay after their message": Planted(
        f"{_SQL}/messages.py",
        '    writing.send("DELETE FROM parts WHERE message = ?", number)\n'
        '    writing.send("DELETE FROM message_payloads',
        '    writing.send("DELETE FROM message_payloads',
        seed=19,
        home="sqlite",
    ),
    "rows of pauses that stay": Planted(
        f"{_SQL}/claiming.py",
        "        if writing.rows(own, parked):\n",
        "        if False:\n",
        seed=19,
        home="sqlite",
    ),
    "attempts of all hours deleted": Planted(
        f"{_SQL}/attempts.py",
        "            if hour < limit or left < 0:\n",
        "            if True:\n",
        seed=19,
        home="sqlite",
    ),
    "a payload deleted though a message names it": Planted(
        f"{_SQL}/payloads.py",
        '                " AND NOT EXISTS'
        ' (SELECT 1 FROM message_payloads WHERE payload = payloads.name)"\n',
        "",
        seed=49,
        home="sqlite",
    ),
    "a settlement that is not counted": Planted(
        f"{_SQL}/settling.py",
        "        writing.count(steps.counts.counts)\n",
        "",
        seed=19,
        home="sqlite",
    ),
    "a late worker that settles what is another's": Planted(
        f"{_SQL}/settling.py",
        "        number, run = receipt.number, self._database.run_of(receipt.run)\n",
        "        number = receipt.number\n"
        '        found = writing.rows("SELECT run FROM messages WHERE id = ?", number)\n'
        "        run = found[0][0] if found else -1\n",
        seed=16,
        home="postgres",
    ),
    "an end by terms that another server has replaced": Planted(
        f"{_SQL}/settling.py",
        "if changed := [each for each in steps.conditions if not _is_unchanged(writing, each)]:",
        "if changed := []:",
        unseen="an update has to fall between re-read and commit: test_settling.py does",
        home="postgres",
    ),
    "transactions that hold no process": Planted(
        f"{_POSTGRES}/transaction.py",
        '        self.execute("SELECT check_alive($1, $2)", [process.id, process.number])\n',
        "",
        seed=33,
        home="postgres",
    ),
    "a repeat that leaves behind what is in hand": Planted(
        f"{_POSTGRES}/committer.py",
        "        in_hand = [*self._in_hand(), *claims, *born]\n",
        "        in_hand = [*claims, *born]\n",
        seed=2,
        home="postgres",
    ),
    "a repeat under the same number": Planted(
        f"{_POSTGRES}/committer.py",
        "            number, renewals = found[0][0] + 1, found[0][1] + 1\n",
        "            number, renewals = found[0][0], found[0][1] + 1\n",
        unseen="a late commit has to come after the repeat: test_postgres_commits.py does",
        home="postgres",
    ),
    "a repeat of what was not in hand": Planted(
        f"{_POSTGRES}/committer.py",
        "        births = [each for each in group if each.options.births]\n",
        "        births = [*group]\n",
        seed=7,
        home="postgres",
    ),
    "a repeat by who was judged dead": Planted(
        f"{_POSTGRES}/committer.py",
        "                self.is_lost, of = True, {}\n                break\n",
        "                self.is_lost = True\n"
        "                self._be_alive()\n"
        "                continue\n",
        unseen="it has to be judged while it repeats: test_postgres_commits.py does",
        home="postgres",
    ),
    "a settlement under a former number": Planted(
        f"{_POSTGRES}/database.py",
        "        return self.run if taken >> NUMBER_BITS == self._process.id else -1\n",
        "        return taken\n",
        seed=2,
        home="postgres",
    ),
    "what a living process has is free": Planted(
        f"{_SQL}/dialects.py",
        " ELSE number - 1 END",
        " ELSE number END",
        seed=2,
        home="postgres",
    ),
    "a judgement that frees once, and forgets": Planted(
        f"{_POSTGRES}/processes.py",
        "            return transaction.run(judged, id_, seen.number, seen.renewals)\n",
        "            done = transaction.run(judged, id_, seen.number, seen.renewals)\n"
        "            runs = id_ << NUMBER_BITS, (id_ + 1) << NUMBER_BITS\n"
        '            freed = "UPDATE messages SET run = 0 WHERE run BETWEEN ? AND ?"\n'
        "            done and transaction.run(freed, *runs)\n"
        '            done and transaction.run("DELETE FROM processes WHERE id = ?", id_)\n'
        "            return done\n",
        unseen="it would have to miss what is locked: test_postgres_leases.py does",
        home="postgres",
    ),
    "ids that a sequence gives": Planted(
        f"{_POSTGRES}/committer.py",
        "            process = Process(self._draw(_ID_BITS - 1) + 1, 1, start)\n",
        "            process = Process(start, 1, start)\n",
        unseen="two have to begin around an asynchronous failover: test_postgres_processes.py does",
        home="postgres",
    ),
    "an outage that makes processes dead": Planted(
        f"{_POSTGRES}/processes.py",
        "            self._seen = {}  # An outage makes nobody dead.\n",
        "",
        seed=25,
        home="postgres",
        also=[(f"{_POSTGRES}/processes.py", "  # It was stopped", " if False else before  # It")],
    ),
    "a judge that was frozen itself": Planted(
        f"{_POSTGRES}/processes.py",
        "        if now - self._seen_at > _MISSED * OBSERVED_EVERY:\n",
        "        if False:\n",
        unseen="all others have to be frozen as long: test_postgres_processes.py does",
        home="postgres",
    ),
    "a lease that counts from the answer": Planted(
        f"{_POSTGRES}/processes.py",
        "own._replace(renewals=renewals, renewed_at=sent)",
        "own._replace(renewals=renewals, renewed_at=self._boottime())",
        unseen="the last renewal has to be answered late: test_postgres_leases.py does",
        home="postgres",
    ),
    "pushes without a lease": Planted(
        f"{_POSTGRES}/processes.py",
        "        return self._boottime() - self._committer.own.renewed_at < LEASE_SECONDS\n",
        "        return True\n",
        seed=23,
        home="postgres",
    ),
    "a hand-back of what is being pushed": Planted(
        f"{_SQL}/leases.py",
        "                await self._let_go(out)\n",
        "                await self._let_go(())\n",
        seed=13,
        home="postgres",
    ),
    "a failover that nobody notices": Planted(
        f"{_POSTGRES}/schema.py",
        "            AND timeline = {TIMELINE}\n",
        "",
        unseen="a new number, to which it leads, frees as well: test_postgres_processes.py does",
        home="postgres",
        also=[(f"{_POSTGRES}/committer.py", " and began_in == timeline\n", "\n")],
    ),
    "due times and ends by each server's own clock": Planted(
        "server/postgres_home.py",
        "        self._clock.follow(self.store.time.now)\n",
        "        self.store.time.now = self._clock.now\n",
        seed=13,
        home="postgres",
    ),
    "publications by a catalogue that is known": Planted(
        f"{_POSTGRES}/store.py",
        "        self.catalogue_version = self.documents.read_version\n",
        "",
        seed=24,
        home="postgres",
    ),
    "a doubtful retry that is not taken back": Planted(
        f"{_SQL}/sender.py",
        "                if loop_time() >= give_up_at:\n                    raise\n",
        "                raise\n",
        unseen="a late success has to fall into a doubtful commit: test_postgres_commits.py does",
        home="postgres",
    ),
    "a doubtful claim that is not looked for": Planted(
        f"{_SQL}/leases.py",
        "                hand.doubt(taken)\n",
        "                pass\n",
        seed=7,
        home="postgres",
    ),
}


def is_planted(bug: Planted, folder: Path) -> bool:
    """Edit the copy in *folder*; tell whether there was one such place of each."""
    edits = ((bug.file, bug.old, bug.new), *bug.also)
    return all(_is_edited(folder / file, old, new) for file, old, new in edits)


def _is_edited(file: Path, old: str, new: str) -> bool:
    text = file.read_text()
    file.write_text(text.replace(old, new))
    return text.count(old) == 1


def copy_app(folder: Path) -> None:
    """Copy what a simulation needs into *folder*."""
    for name in (*package_list(), *_simulation()):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())


def _simulation() -> Sequence[Path]:
    folders = (ROOT / "tests" / "simulation", ROOT / "pushgrid")
    files = [each for folder in folders for each in folder.rglob("*.py")]
    names = "package_list.py", "integration/sql/recorded_disk.py"
    others = [ROOT / "tests" / each for each in names]
    return [each.relative_to(ROOT) for each in (*files, *(ROOT / "server").rglob("*.py"), *others)]


def seen_in(bug: Planted) -> str:
    """Return which seed finds a bug, and what; empty: none does. The known one comes first."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_app(folder)
        if not is_planted(bug, folder):
            raise ValueError(f"{bug.file} has not one place that reads: {bug.old}")
        found = "" if bug.seed is None else _found_by(folder, bug, bug.seed, 1)
        return found or _found_by(folder, bug, 0, SEEDS)


def _found_by(folder: Path, bug: Planted, first: int, seeds: int) -> str:
    given = ("--home", bug.home, "--first", str(first), "--seeds", str(seeds), "--until-red")
    found = subprocess.run(
        [sys.executable, "-m", "tests.simulation", *given],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    first_line = next((each for each in found.stdout.splitlines() if each.startswith("seed ")), "")
    if not first_line and found.returncode:
        raise RuntimeError(f"the simulation failed on {bug.file}: {found.stderr[-400:]}")
    return first_line


def main(names: Sequence[str]) -> int:
    """Print for each bug which seed sees it; return 1 if any is not, and nobody knows why."""
    unexplained = []
    chosen = names or tuple(PLANTED)
    with ThreadPool(SIDE_BY_SIDE) as pool:
        for name, found in zip(
            chosen, pool.imap(seen_in, [PLANTED[each] for each in chosen]), strict=True
        ):
            why = PLANTED[name].unseen
            unexplained += [] if found or why else [name]
            print(f"{name}: {found or f'NOT SEEN: {why}'}", flush=True)
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
