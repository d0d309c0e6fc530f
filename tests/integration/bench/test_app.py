"""Which app a benchmark measures, and what that may open."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.load import running_app
from devhost.errors import HostError

PYTHON = """#!/bin/sh
echo "$PWD, $(ulimit -Sn), $(ulimit -Hn): $*"
echo ready http://127.0.0.1:1
read -r _
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return another checkout, named in APP, whose Python tells how it was called."""
    python = tmp_path / "my app" / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(PYTHON)
    python.chmod(0o755)
    monkeypatch.setenv("APP", str(tmp_path / "my app"))
    return tmp_path / "my app"


def test_another_checkout_runs_in_its_own_folder_with_its_own_python(checkout: Path):
    with running_app({}, descriptors=200) as host:
        started = host.lines[0]

    options = f"--end-with-stdin --root {checkout} --port 0"
    assert started == f"{checkout}, 200, 200: -m devhost {options}"


def test_a_checkout_without_an_environment_is_named(checkout: Path):
    (checkout / ".venv" / "bin" / "python").unlink()

    with pytest.raises(HostError, match=r"my app/\.venv/bin/python"):
        running_app({}).__enter__()
