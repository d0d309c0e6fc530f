"""`python -m cli cost`: what a month's work costs on Azure, beside Event Grid's price for it."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from cli.costs.bill import compare
from cli.costs.model import CORES
from cli.costs.report import document, text
from cli.costs.workload import Workload

_MOST = {  # what a publish request and a topic can hold (README, Limits)
    "events": 10**13,
    "fanout": 500,
    "batch": 5000,
    "size": 1_049_600,
}
_REQUEST = 1_536_000  # bytes


def add_to(commands: Any) -> None:
    """Add the command to the parser's sub-commands."""
    parser = commands.add_parser(
        "cost",
        help="what a month costs on Azure, and what Event Grid would take for it",
        description="What a month's work costs on Azure, from list prices and measured storage"
        " operations, and what Event Grid would take for the same.",
    )
    parser.add_argument("--events", type=int, required=True, metavar="N", help="published a month")
    parser.add_argument(
        "--fanout", type=int, required=True, metavar="N", help="event subscriptions that get each"
    )
    parser.add_argument(
        "--batch", type=int, required=True, metavar="N", help="events in a publish request"
    )
    parser.add_argument(
        "--size", type=int, required=True, metavar="BYTES", help="of an event, as published"
    )
    parser.add_argument(
        "--failure-rate",
        type=float,
        default=0.0,
        metavar="R",
        help="share of attempts that fail, 0 to 1 (0)",
    )
    parser.add_argument(
        "--memory-mb",
        type=int,
        choices=list(CORES),
        default=2048,
        help="of an instance (2048, as the templates have it)",
    )
    parser.add_argument("--json", action="store_true", help="for programs; dollars and seconds")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the comparison; returns 2 for arguments that make no sense."""
    try:
        told = compare(_workload(options), options.memory_mb)
    except ValueError as error:
        print(f"python -m cli cost: {error}", file=sys.stderr)
        return 2
    print(json.dumps(document(told)) if options.json else text(told))
    return 0


def _workload(options: argparse.Namespace) -> Workload:
    asked = {name: getattr(options, name) for name in _MOST}
    for name, most in _MOST.items():
        if not 1 <= asked[name] <= most:
            raise ValueError(f"--{name}: 1 to {most}")
    if not 0 <= options.failure_rate <= 1:
        raise ValueError("--failure-rate: 0 to 1")
    if asked["batch"] > asked["events"]:
        raise ValueError("--batch: there are not so many events")
    if asked["batch"] * asked["size"] > _REQUEST:
        raise ValueError(f"--batch: a publish request holds {_REQUEST} bytes")
    return Workload(**asked, failure_rate=options.failure_rate)
