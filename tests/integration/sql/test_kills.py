"""Nothing that was answered is lost when the process is killed, or the disk is full."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from shared.adapters.sql.sqlite.store import SqliteStore
from shared.adapters.threads import SystemThreads
from shared.clock import SystemClock
from shared.engine.ports import Queue

ROOT = Path(__file__).parents[3]
KILLS = 12


@contextmanager
def writing(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run the writer, and kill it at the end."""
    with subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


def program(folder: Path, name: str) -> list[str]:
    return [sys.executable, "-m", "tests.integration.sql.writer", str(folder), name]


def noted(lines: list[str], told: dict[str, set[str]]) -> None:
    """Note what a writer has told; its last line may have been cut off."""
    for line in lines:
        what, _, text = line.rstrip("\n").partition(" ")
        if what in told and line.endswith("\n"):
            told[what].add(text)


async def left(folder: Path) -> set[str]:
    """Return what the next process gets, each message once, and what killed too many to be got."""
    store = SqliteStore(folder, clock=SystemClock(), threads=SystemThreads())

    def count() -> int:
        backlog = store.queues.peek(Queue.DELIVERIES)
        return backlog.messages if backlog else 0

    got: list[str] = []
    while await asyncio.to_thread(count):
        for lease in await store.leases.claim(Queue.DELIVERIES, 1000):
            got.append(lease.body.decode().split()[0])
            await store.leases.end(lease)
    assert len(got) == len(set(got))
    records = store.database.read(lambda reading: reading.rows("SELECT body FROM blobs"))
    poison = [json.loads(body)["body"].split()[0] for (body,) in records]
    await store.leases.close()
    store.close()
    return {*got, *poison}


def test_what_was_answered_survives_kills_at_any_moment(tmp_path: Path) -> None:
    """And what was ended does not come again."""
    told: dict[str, set[str]] = {"answered": set(), "ending": set(), "ended": set()}
    chance = Random(17)
    folder = tmp_path / "data"
    for kill in range(KILLS):
        with writing(*program(folder, f"run{kill}")) as process:
            assert process.stdout
            lines = [process.stdout.readline() for _ in range(chance.randrange(3, 90))]
            process.kill()
            noted([*lines, *process.stdout.readlines()], told)

    found = asyncio.run(left(folder))

    assert told["answered"] - told["ending"] - found == set()
    assert told["ended"] & found == set()
    assert len(told["answered"]) > 10 * KILLS
    assert len(told["ended"]) > KILLS


def _in_small_disk(folder: Path, size: str) -> list[str]:
    """Return what begins a program whose *folder* is a disk of its own, without being root."""
    mount = f'mount -t tmpfs -o size={size},mode=700 none "{folder}" && exec "$@"'
    return ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh"]


def test_a_full_disk_refuses_and_is_over_when_it_is_over(tmp_path: Path) -> None:
    """What was answered before and after is there; the process goes on meanwhile."""
    folder = tmp_path / "disk"
    folder.mkdir()
    small = _in_small_disk(folder, "5m")
    if not shutil.which("unshare") or subprocess.run([*small, "true"], check=False).returncode:
        pytest.skip("this system lets nobody mount a small disk")
    check = "import sys; from tests.integration.sql.test_kills import main; main(sys.argv[1])"

    run = subprocess.run(
        [*small, sys.executable, "-c", check, str(folder)],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )

    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.splitlines()[-1] == "nothing is lost"


def main(disk: str) -> None:
    """Fill the disk, make room, and look for what was answered."""
    told: dict[str, set[str]] = {"answered": set(), "ending": set(), "ended": set()}
    folder = Path(disk, "data")
    ballast = Path(disk, "ballast")
    ballast.write_bytes(bytes(3_000_000))
    with writing(*program(folder, "run")) as process:
        assert process.stdout
        lines: list[str] = []
        while "refused\n" not in lines:
            lines.append(process.stdout.readline())
        full_at = len(lines)
        ballast.unlink()
        while "answered" not in "".join(lines[full_at:]):
            lines.append(process.stdout.readline())
        process.kill()
        noted([*lines, *process.stdout.readlines()], told)
    found = asyncio.run(left(folder))
    assert told["answered"] - told["ending"] - found == set()
    assert told["answered"]
    print("nothing is lost")
