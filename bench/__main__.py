"""Runs one benchmark: `python -m bench NAME [OPTIONS]`."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from testbed.ending import end_on_signals

MEASUREMENTS = (
    "price",
    "slow",
    "isolation",
    "filters",
    "operations",
    "home",
    "ratios",
    "simulation",
    "soak",
    "peers",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark in *arguments* (default: ``sys.argv``); returns 2 for an unknown name."""
    name, *rest = (sys.argv[1:] if arguments is None else arguments) or MEASUREMENTS[:1]
    if name not in MEASUREMENTS:
        print(f"bench: '{name}' is not one of {', '.join(MEASUREMENTS)}", file=sys.stderr)
        return 2
    try:
        measurement = importlib.import_module(f"bench.{name}")
        description = (measurement.__doc__ or "").strip().partition("\n")[0]
        parser = argparse.ArgumentParser(prog=f"python -m bench {name}", description=description)
        return int(measurement.main(parser, rest))
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    end_on_signals()  # the host, Azurite and the sink end with it
    sys.exit(main())
