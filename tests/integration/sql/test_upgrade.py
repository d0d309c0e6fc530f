"""What the program before has left is brought into this one's form, and delivered; and back."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from time import time

import pytest

from pushgrid.testing.memory import FakeClock, ScriptedPusher
from shared.adapters.sql import migrations
from shared.adapters.sql.database import StoreRefused
from shared.adapters.sql.migrations import Migration
from tests.integration.sql.databases import opened
from tests.integration.sql.test_app import serving, until

ROOT = Path(__file__).parents[3]
SCHEMA_1 = Path(__file__).with_name("schema_1.sql")
_NEXT = Migration(2, 1, "9.9", "ALTER TABLE messages ADD COLUMN note {text};")
_AUTO_VACUUM, _APPLICATION = 2, 0x50475244


def left_by_schema_1(folder: Path) -> Path:
    """Make the folder of a server that was killed, from the text of its schema and rows alone."""
    folder.mkdir(mode=0o700)
    with closing(sqlite3.connect(folder / "pushgrid.db", isolation_level=None)) as database:
        database.execute(f"PRAGMA auto_vacuum = {_AUTO_VACUUM}")
        database.execute(f"PRAGMA application_id = {_APPLICATION}")
        script = SCHEMA_1.read_text().replace("{published}", str(int(time() * 1e6)))
        database.executescript(script)
    return folder


def know(monkeypatch: pytest.MonkeyPatch, *steps: Migration) -> None:
    """Let this be a program that has these steps, too."""
    monkeypatch.setattr(migrations, "_STEPS", (*migrations._STEPS, *steps))
    monkeypatch.setattr(migrations, "LATEST", migrations._STEPS[-1].number)


def schema(database: Path) -> Sequence[str]:
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as reading:
        found = reading.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name")
        return [text for (text,) in found]


def delivered(folder: Path) -> list[str]:
    """Serve the folder until nothing waits; return the names of the events that were pushed."""
    pusher = ScriptedPusher(FakeClock())

    async def play() -> None:
        async with serving(folder, pusher) as server:
            await until(lambda: not server.store.unfinished())

    asyncio.run(play())
    return sorted(event["id"] for each in pusher.sent for event in json.loads(each.request.body))


def test_step_1_makes_what_programs_of_schema_1_have(tmp_path: Path) -> None:
    """A step that was released never changes: what is there would not get it."""
    with opened(tmp_path / "new"):
        pass

    old = left_by_schema_1(tmp_path / "old") / "pushgrid.db"
    if len(migrations._STEPS) == 1:
        assert schema(tmp_path / "new/pushgrid.db") == schema(old)


def test_what_the_program_before_has_left_is_migrated_and_delivered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the named copy of before is the way back, from which it is delivered once more."""
    folder = left_by_schema_1(tmp_path / "data")
    before = schema(folder / "pushgrid.db")
    with monkeypatch.context() as newer:
        know(newer, _NEXT._replace(number=migrations.LATEST + 1, oldest=migrations.LATEST + 1))
        assert delivered(folder) == ["e-1", "e-2"]
        assert schema(folder / "pushgrid.db") != before
        assert delivered(folder) == []

    with pytest.raises(StoreRefused, match="restore"), opened(folder):
        pass
    (copy,) = folder.glob("backups/*.db")
    assert schema(copy) == before
    (folder / "pushgrid.txt").touch()  # `serve` has made it
    command = [sys.executable, "-m", "cli", "restore", str(copy), "--data", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    assert delivered(folder) == ["e-1", "e-2"]


def test_an_older_program_that_the_schema_names_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = left_by_schema_1(tmp_path / "data")
    with monkeypatch.context() as newer:
        know(newer, _NEXT._replace(number=migrations.LATEST + 1))
        with opened(folder):
            pass

    assert delivered(folder) == ["e-1", "e-2"]
