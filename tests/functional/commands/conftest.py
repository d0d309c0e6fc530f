from __future__ import annotations

import pytest

from pushgrid.testing.deployment import Pushgrid
from tests.commands import Run, runner


@pytest.fixture
def run(
    pushgrid: Pushgrid, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Run the command on the deployment, as an operator does who has its key."""
    monkeypatch.setattr("cli.replays._POLL", 0.01)
    return runner(monkeypatch, capsys, pushgrid.url, pushgrid.admin_key)
