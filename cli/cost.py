"""`pushgrid cost`: prices a month's work on Azure and compares it with Event Grid's price."""

from __future__ import annotations

from collections.abc import Mapping

import click

from cli.costs.bill import compare
from cli.costs.model import CORES
from cli.costs.report import document, text
from cli.costs.workload import Workload
from cli.terminal import print_json, say

_MOST = {  # the limits of a publish request and a topic: README
    "events": 10**13,
    "fanout": 500,
    "batch": 5000,
    "size": 1_049_600,
}
_REQUEST = 1_536_000  # bytes


@click.command("cost")
@click.option("--events", type=int, required=True, metavar="N", help="Events published a month.")
@click.option(
    "--fanout",
    type=int,
    required=True,
    metavar="N",
    help="Event subscriptions that receive each event.",
)
@click.option("--batch", type=int, required=True, metavar="N", help="Events in one request.")
@click.option(
    "--size", type=int, required=True, metavar="BYTES", help="Size of an event as published."
)
@click.option(
    "--failure-rate",
    type=float,
    default=0.0,
    metavar="R",
    show_default=True,
    help="Share of delivery attempts that fail, 0 to 1.",
)
@click.option(
    "--memory-mb",
    type=click.Choice(list(CORES)),
    default=2048,
    show_default=True,
    help="Memory of an instance, as in the templates.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: dollars and seconds.")
def cost(failure_rate: float, memory_mb: int, as_json: bool, **load: int) -> None:
    """
    Price a month's work on Azure, beside Event Grid's price.

    It is computed from list prices and measured storage operations.
    """
    try:
        comparison = compare(_workload(load, failure_rate), memory_mb)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        print_json(document(comparison), indent=None)
    else:
        say(text(comparison))


def _workload(load: Mapping[str, int], failure_rate: float) -> Workload:
    for name, most in _MOST.items():
        if not 1 <= load[name] <= most:
            raise ValueError(f"--{name}: must be 1 to {most}")
    if not 0 <= failure_rate <= 1:
        raise ValueError("--failure-rate: must be 0 to 1")
    if load["batch"] > load["events"]:
        raise ValueError("--batch: must not exceed --events")
    if load["batch"] * load["size"] > _REQUEST:
        raise ValueError(f"--batch: a publish request holds at most {_REQUEST} bytes")
    return Workload(**load, failure_rate=failure_rate)
