"""Older management clients pass the tests of the newest, with api-versions of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS = 200


@pytest.mark.parametrize(
    ("version", "left_out"),
    [
        pytest.param("10.2.0", "nothing", id="10.2.0, of 2022-06-15"),
        # Knows event subscriptions as extensions of their topic only.
        pytest.param("9.0.0", "nested", id="9.0.0, of 2020-10-15-preview"),
    ],
)
def test_an_older_client_works_as_well(version: str, left_out: str):
    folder = ROOT / ".clients" / version
    assert folder.is_dir(), "set up by `make clients`"
    suite = ROOT / "tests" / "e2e" / "test_management_sdk.py"
    options = ["-q", "-p", "no:cacheprovider", "-W", "ignore::DeprecationWarning"]

    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-k", f"not {left_out}", str(suite)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(folder), "CLIENT_VERSION": version},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )

    assert run.returncode == 0, run.stdout + run.stderr
