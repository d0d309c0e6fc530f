"""`pushgrid top`: shows rates, queues, held endpoints and the latest failures, again and again."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import click
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cli.deployment import Deployment
from cli.failure import CommandFailed
from cli.holds import hold_table
from cli.options import calls_deployment, prints_json
from cli.output import as_table, moment, print_parts
from cli.readings import Failure, Reading, Readings
from cli.status import queue_rows

_Found = Reading | CommandFailed  # a reading, or why there is none
_Parts = list[Table | Text]
_COUNTED = {
    "published": "PUBLISHED",
    "delivered": "DELIVERED",
    "failed": "FAILED ATTEMPTS",
    "deadLettered": "DEAD-LETTERED",
    "dropped": "DROPPED",
}


@click.command("top")
@click.option("--once", is_flag=True, help="Show one reading, and end; it has no rates.")
@click.option(
    "--interval",
    type=click.FloatRange(min=1),
    default=5.0,
    metavar="SECONDS",
    show_default=True,
    help="Time between two readings.",
)
@prints_json
@calls_deployment
def top(deployment: Deployment, *, once: bool, interval: float, as_json: bool) -> int:
    """
    Show rates, queues, holds and the latest failures.

    Ctrl-C ends it. On a terminal the screen is redrawn; elsewhere each reading is printed as text.
    With --json each is an object on a line of its own. Rates are events a second over the last
    minute.
    """
    readings = Readings(deployment)
    first = readings.read()
    try:
        with _screen(deployment.url, as_json=as_json, is_live=not once) as show:
            show(first)
            while not once:
                time.sleep(interval)
                show(_try(readings))
    except KeyboardInterrupt:
        pass
    return 0


def _try(readings: Readings) -> _Found:
    """Return the next reading, or why the deployment gives none for now."""
    try:
        return readings.read()
    except CommandFailed as error:
        passes = error.status in {None, HTTPStatus.TOO_MANY_REQUESTS} or (
            error.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        )
        if not passes:
            raise
        return error


@contextmanager
def _screen(url: str, *, as_json: bool, is_live: bool) -> Iterator[Callable[[_Found], None]]:
    """Give the function that shows what was found."""
    if as_json:
        yield _print_json
    elif is_live and sys.stdout.isatty():
        with Live(screen=True, auto_refresh=False) as live:
            last: _Parts = []

            def redraw(found: _Found) -> None:
                nonlocal last
                parts = parts_of(found, url)
                if isinstance(found, Reading):
                    last = parts
                else:
                    parts += last
                live.update(Group(*parts), refresh=True)

            yield redraw
    else:

        def print_found(found: _Found) -> None:
            print_parts(*parts_of(found, url), Text())
            sys.stdout.flush()

        yield print_found


def _print_json(found: _Found) -> None:
    if isinstance(found, Reading):
        document = found.document
    else:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        document = {"at": now, "status": "unavailable", "reasons": [found.message]}
    click.echo(json.dumps(document, ensure_ascii=False))
    sys.stdout.flush()


def parts_of(found: _Found, url: str) -> _Parts:
    """Return what was found as texts and tables, one below the other."""
    if isinstance(found, CommandFailed):
        why = f"{moment(datetime.now(UTC))}  no reading, trying again: {found.message}"
        return [Text(why, style="red")]
    health, rates = found.health, found.rates
    title = Text.assemble(
        f"{moment(health['checkedAt'])}  {url} is ",
        (health["status"], "green" if health["status"] == "healthy" else "red"),
        *(f"\n  {reason}" for reason in health["reasons"]),
    )
    counts: list[dict[str, object]] = [
        {"EVENTS": row, **{words: f"{values[name]:{form}}" for name, words in _COUNTED.items()}}
        for row, values, form in (("a second", rates, ".2f"), ("in total", found.totals, ".0f"))
        if values
    ]
    queues = {name: each for name, each in health["queues"].items() if each["messages"]}
    failures = [_failure_row(each) for each in found.failures]
    return [
        title,
        as_table(counts, ""),
        Text(),
        as_table(queue_rows(queues), "All queues are empty."),
        Text(),
        hold_table(found.holds),
        Text(),
        as_table(failures, "No recorded attempt has failed recently."),
    ]


def _failure_row(failure: Failure) -> dict[str, Any]:
    reason = f": {failure['reason']}" if failure["reason"] else ""
    detail = f" ({failure['detail']})" if failure["detail"] else ""
    return {
        "FAILED": _time_of_day(failure["at"]),
        "SUBSCRIPTION": f"{failure['topic']}/{failure['subscription']}",
        "EVENT": failure["eventId"],
        "#": failure["number"],
        "ANSWER": f"{failure['status'] or '-'} {failure['outcome']}",
        "NEXT": _time_of_day(failure["nextAt"]) if failure["nextAt"] else "given up",
        "BECAUSE OF": f"{failure['why'] or ''}{reason}{detail}",
    }


def _time_of_day(text: str) -> str:
    return f"{datetime.fromisoformat(text):%H:%M:%S}"
