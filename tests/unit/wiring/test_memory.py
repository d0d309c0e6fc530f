"""What a burst has needed goes back to the system."""

from __future__ import annotations

import subprocess
import sys

import pytest

_BURST = """
from pathlib import Path
from shared.wiring.process import return_memory

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1])

texts = [bytes([each % 256]) * 1000 for each in range(60_000)]
most = resident()
texts = texts[::600]  # what is left lies among what is free
kept = resident()
return_memory()
print(most, kept, resident())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc alone keeps it")
def test_what_a_burst_has_needed_goes_back() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _BURST], capture_output=True, text=True, check=True
    )

    most, kept, left = map(int, done.stdout.split())
    assert kept > most * 0.9  # the control: glibc keeps it
    assert left < most * 0.6
