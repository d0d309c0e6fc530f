"""`python -m cli cost`: prices a month's work on Azure and compares it with Event Grid's price."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from cli.costs.bill import compare
from cli.costs.model import CORES
from cli.costs.report import document, text
from cli.costs.workload import Workload

_OPTIONS = {  # name: most (the limits of a publish request and a topic: README), unit, help
    "events": (10**13, "N", "events published a month"),
    "fanout": (500, "N", "event subscriptions that receive each event"),
    "batch": (5000, "N", "events in one publish request"),
    "size": (1_049_600, "BYTES", "size of an event as published"),
}
_REQUEST = 1_536_000  # bytes


def add_to(commands: Any) -> None:
    """Add the command to the parser's sub-commands."""
    parser = commands.add_parser(
        "cost",
        help="what a month costs on Azure, and what Event Grid would charge",
        description="What a month's work costs on Azure, from list prices and measured storage"
        " operations, and what Event Grid would charge for the same.",
    )
    for name, (_, unit, words) in _OPTIONS.items():
        parser.add_argument(f"--{name}", type=int, required=True, metavar=unit, help=words)
    parser.add_argument(
        "--failure-rate",
        type=float,
        default=0.0,
        metavar="R",
        help="share of delivery attempts that fail, 0 to 1 (default: 0)",
    )
    parser.add_argument(
        "--memory-mb",
        type=int,
        choices=list(CORES),
        default=2048,
        help="memory of an instance (default: 2048, as in the templates)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON: dollars and seconds")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the comparison; returns 2 for invalid arguments."""
    try:
        comparison = compare(_workload(options), options.memory_mb)
    except ValueError as error:
        print(f"python -m cli cost: {error}", file=sys.stderr)
        return 2
    print(json.dumps(document(comparison)) if options.json else text(comparison))
    return 0


def _workload(options: argparse.Namespace) -> Workload:
    values = {name: getattr(options, name) for name in _OPTIONS}
    for name, (most, *_) in _OPTIONS.items():
        if not 1 <= values[name] <= most:
            raise ValueError(f"--{name}: must be 1 to {most}")
    if not 0 <= options.failure_rate <= 1:
        raise ValueError("--failure-rate: must be 0 to 1")
    if values["batch"] > values["events"]:
        raise ValueError("--batch: must not exceed --events")
    if values["batch"] * values["size"] > _REQUEST:
        raise ValueError(f"--batch: a publish request holds at most {_REQUEST} bytes")
    return Workload(**values, failure_rate=options.failure_rate)
