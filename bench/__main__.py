"""`python -m bench NAME`: one of the measurements, with its options."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from testbed.ending import end_on_signals

MEASUREMENTS = ("throughput", "isolation", "filters", "operations")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the measurement that is named; returns 2 if there is none of that name."""
    name, *rest = (sys.argv[1:] if arguments is None else arguments) or MEASUREMENTS[:1]
    if name not in MEASUREMENTS:
        print(f"bench: '{name}' is none of {', '.join(MEASUREMENTS)}", file=sys.stderr)
        return 2
    try:
        return int(importlib.import_module(f"bench.{name}").main(rest))
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    end_on_signals()  # else what runs beside it would go on
    sys.exit(main())
