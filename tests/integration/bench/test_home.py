"""What `pushgrid serve` takes by itself: syncs, and what waits."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from bench import home
from bench.disk import compiler, counted_syncs

_SYNCS = "import os; [sync(1) for sync in (os.fsync, os.fdatasync, os.fsync)]"


@pytest.mark.skipif(compiler() is None, reason="no C compiler is installed")
def test_the_syncs_of_a_process_are_counted(tmp_path):
    with counted_syncs() as syncs, (tmp_path / "file").open("w") as file:
        command = [sys.executable, "-c", _SYNCS]
        subprocess.run(command, env=os.environ | syncs.environ, stdout=file, check=True)

        assert syncs.count == 3


def test_what_waits_is_measured_beside_a_server_with_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(home, "_SETTLES", 0.1)

    before, found = home.waiting(64, is_quick=True)

    assert (before.phase, found.phase) == ("nothing waits", "20,000 wait")
    assert set(found.figures) - set(before.figures) == {"publish : nothing", "memory + MB"}
    assert found.figures["waiting"] == 20_000
