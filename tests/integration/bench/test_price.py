"""What a delivery costs on a running host, and what is left out where the profiler fails."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.load import Case
from bench.price import command
from bench.price.profiler import ProfilerError, sampled

SAMPLES = """#!/bin/sh
while [ "$1" != --output ]; do shift; done
trap 'echo "main (publish_function/__init__.py:13) 4" >"$2"; exit' INT
echo 'py-spy> Sampling process 200 times a second. Press Control-C to exit.'
while :; do sleep 0.05; done
"""


@pytest.fixture
def profiler(tmp_path: Path) -> Path:
    return tmp_path / "py-spy"


def running(profiler: Path, script: str) -> Path:
    profiler.write_text(script)
    profiler.chmod(0o755)
    return profiler


def test_shares_are_those_of_the_block(profiler: Path):
    with sampled(running(profiler, SAMPLES), os.getpid()) as shares:
        assert not shares

    assert (shares["function %"], shares["samples"]) == (100.0, 4)


@pytest.mark.parametrize(
    ("script", "fault"),
    [
        (None, r"^py-spy is missing: make bench OF=price$"),
        ("#!/bin/sh\necho Permission denied >&2; exit 1\n", "may not attach: Permission denied$"),
        ("#!/bin/sh\n", "may not attach: it printed nothing$"),
        ("#!/bin/sh\necho Sampling process; exec sleep 60\n", "there is no sample"),
    ],
)
def test_a_profiler_that_fails_is_named(profiler: Path, script: str | None, fault: str):
    if script:
        running(profiler, script)

    with pytest.raises(ProfilerError, match=fault), sampled(profiler, os.getpid()):
        pass


def test_without_shares_a_delivery_still_has_its_price(
    profiler: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(command, "_PROFILER", profiler)

    (row,) = command.price(Case("", 0, 10, 4, 2, batching=5), is_quick=True)

    assert set(row.figures) == {
        "delivered/s",
        "p50 ms",
        "p99 ms",
        "host CPU ms",
        "Azurite CPU ms",
    }
    assert min(row.figures.values()) > 0
    assert "the shares are left out: py-spy is missing" in capsys.readouterr().err
