"""`pushgrid top`: shows rates, queues, what is wrong and the latest failures, again and again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from time import sleep
from typing import Any

import click
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cli.deployment import Deployment
from cli.failure import CommandFailed
from cli.option_types import NumberRange
from cli.options import calls_deployment, prints_json
from cli.output import Console, as_table, moment, print_parts
from cli.readings import COUNTED, Failure, Reading, Readings
from cli.status import queue_rows, trouble_row, waiting_text
from cli.terminal import print_json
from cli.timeline import about_text, said

_Found = Reading | CommandFailed  # a reading, or why there is none
_Parts = list[Table | Text]
_TROUBLES = 20  # that are shown
_CUT = ("EVENT", "BECAUSE OF")  # columns that give way
_RECORDED_WITHIN = timedelta(seconds=15)  # of its time: the next attempt, if it fails


@click.command("top")
@click.option("--once", is_flag=True, help="Print one snapshot and exit (no rates).")
@click.option(
    "--interval",
    type=NumberRange(min=1),
    default=5.0,
    metavar="SECONDS",
    show_default=True,
    help="Time between two readings.",
)
@prints_json
@calls_deployment
def top(deployment: Deployment, *, once: bool, interval: float, as_json: bool) -> int:
    """
    Show what is wrong, rates, queues and the latest failures.

    Ctrl-C ends it. On a terminal the screen is redrawn; elsewhere each reading is printed as text.
    With --json each is an object on a line of its own. Rates are events a second over the last
    minute.
    """
    readings = Readings(deployment)
    first = readings.read()
    readings.deployment = deployment.quiet
    try:
        with _screen(deployment.url, as_json=as_json, is_live=not once) as show:
            show(first)
            while not once:
                sleep(interval)
                show(_try(readings))
    except KeyboardInterrupt:
        pass
    return 0


def _try(readings: Readings) -> _Found:
    """Return the next reading, or why the deployment gives none for now."""
    try:
        return readings.read()
    except CommandFailed as error:
        if not error.is_passing:
            raise
        return error


@contextmanager
def _screen(url: str, *, as_json: bool, is_live: bool) -> Iterator[Callable[[_Found], None]]:
    if as_json:
        yield _print_json
    elif is_live and sys.stdout.isatty():
        with Live(console=Console(), screen=True, auto_refresh=False) as live:
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
    print_json(document, indent=None)


def parts_of(found: _Found, url: str) -> _Parts:
    """Return what was found as texts and tables, one below the other."""
    if isinstance(found, CommandFailed):
        why = f"{moment(datetime.now(UTC))}  no reading, trying again: {found.message}"
        return [Text(why, style="red")]
    health, rates = found.health, found.rates
    title = Text.assemble(
        f"{moment(health['checkedAt'])}  {url} is ",
        (found.status, "green" if found.status == "healthy" else "red"),
        *(f"\n  {reason}" for reason in health["reasons"]),
        f"\n  {waiting_text(found.found.waiting)}",
    )
    counts: list[dict[str, object]] = [
        {"EVENTS": row, **{words: f"{values[name]:{form}}" for name, (_, words) in COUNTED.items()}}
        for row, values, form in (("a second", rates, ".2f"), ("in total", found.totals, ".0f"))
        if values
    ]
    troubles = [trouble_row(each) for each in found.found.troubles]
    more = len(troubles) - _TROUBLES
    queues = {name: each for name, each in health["queues"].items() if each["messages"]}
    return [
        title,
        as_table(counts, ""),
        Text(),
        as_table(queue_rows(queues), "All queues are empty."),
        Text(),
        as_table(troubles[:_TROUBLES], "Nothing is wrong with any event subscription.", _CUT),
        *([Text(f"… and {more} more; 'pushgrid status' lists them all")] if more > 0 else []),
        Text(),
        _failure_table(found),
    ]


def _failure_table(found: Reading) -> Table | Text:
    now = datetime.fromisoformat(found.health["checkedAt"])
    latest: dict[tuple[Any, ...], Failure] = {}
    for each in found.failures:
        latest.setdefault((each["topic"], each["subscription"], each["systemId"]), each)
    rows = [_failure_row(each, now, is_latest=each in latest.values()) for each in found.failures]
    return as_table(rows, "No recorded attempt has failed recently.", _CUT)


def _failure_row(failure: Failure, now: datetime, *, is_latest: bool) -> dict[str, Any]:
    due = failure["nextAt"] and datetime.fromisoformat(failure["nextAt"])
    is_past = is_latest and due and due + _RECORDED_WITHIN < now
    reason = f": {failure['reason']}" if failure["reason"] else ""
    words = f"{text}: " if (text := said(failure)) else ""
    return {
        "FAILED": f"{datetime.fromisoformat(failure['at']):%H:%M:%S}",
        "SUBSCRIPTION": f"{failure['topic']}/{failure['subscription']}",
        "EVENT": " ".join(filter(None, (failure["eventId"], about_text(failure)))) or None,
        "#": failure["number"],
        "ANSWER": failure["cause"],
        "NEXT": "passed" if is_past else f"{due:%H:%M:%S}" if due else "given up",
        "BECAUSE OF": f"{words}{failure['why'] or ''}{reason}",
    }
