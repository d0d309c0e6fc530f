"""`pushgrid cost`: prices a month's work on Azure and compares it with Event Grid's price."""

from __future__ import annotations

import click

from cli.costs.model import CORES, compare
from cli.costs.report import document, text
from cli.costs.workload import Workload
from cli.option_types import NumberRange, WholeNumber
from cli.terminal import print_json, say

# The limits of a publish request and a topic: README.
_SUBSCRIPTIONS, _EVENTS, _EVENT, _REQUEST = 500, 5000, 1_049_600, 1_536_000  # the latter in bytes


@click.command("cost")
@click.option(
    "--events",
    type=WholeNumber(1, 10**13),
    required=True,
    metavar="N",
    help="Events published a month.",
)
@click.option(
    "--fanout",
    type=WholeNumber(1, _SUBSCRIPTIONS),
    required=True,
    metavar="N",
    help="Event subscriptions that receive each event.",
)
@click.option(
    "--batch",
    type=WholeNumber(1, _EVENTS),
    required=True,
    metavar="N",
    help="Events in one request.",
)
@click.option(
    "--size",
    type=WholeNumber(1, _EVENT),
    required=True,
    metavar="BYTES",
    help="Size of an event as published.",
)
@click.option(
    "--failure-rate",
    type=NumberRange(0, 1),
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
    if load["batch"] > load["events"]:
        raise click.UsageError("--batch: must not exceed --events")
    if load["batch"] * load["size"] > _REQUEST:
        raise click.UsageError(f"--batch: a publish request holds at most {_REQUEST} bytes")
    comparison = compare(Workload(**load, failure_rate=failure_rate), memory_mb)
    if as_json:
        print_json(document(comparison), indent=None)
    else:
        say(text(comparison))
