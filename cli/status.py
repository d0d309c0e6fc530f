"""`pushgrid status`: tells whether a deployment works, and what waits in it."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import click

from cli.deployment import Deployment
from cli.failure import REFUSED, CommandFailed
from cli.options import prints_found
from cli.output import moment, print_table
from cli.terminal import Found, say
from cli.troubles import read_troubles, trouble_text, waiting_text


@click.command("status")
@prints_found
def status(deployment: Deployment) -> Found:
    """
    Show what is wrong, how many events wait, queues and timers.

    Each event subscription that is failing, held, paused, expired, awaiting validation, slow,
    dropping or dead-lettering events is named, the most harmful first: since when, why, and what to
    do. The exit code is 1 if something is wrong.
    """
    found = deployment.status("health")
    if found.get("storage") == "reachable":
        try:
            troubles = read_troubles(deployment)
            found |= {**troubles.document, "status": troubles.overall(found["status"])}
        except CommandFailed as error:
            if error.status != HTTPStatus.SERVICE_UNAVAILABLE:
                raise
            # The health is some seconds old: storage has gone since.
            unknown = f"what is wrong with event subscriptions is not known: {error.message}"
            found |= {"status": "unhealthy", "reasons": [*found["reasons"], unknown]}
    exit_code = 0 if found["status"] == "healthy" else REFUSED
    return Found(found, lambda: _print(deployment.url, found), exit_code)


def _print(url: str, found: dict[str, Any]) -> None:
    say(f"{url} is {found['status']}", colour="green" if found["status"] == "healthy" else "red")
    for reason in found.get("reasons", []):
        say(f"  {reason}")
    if "troubles" in found:
        say(f"  {waiting_text(found['waiting'])}")
        for each in found["troubles"]:
            say(f"\n{trouble_text(each)}")
        for each in found["limits"]:
            say(f"\n{each['topic']}/{each['subscription']} gets {each['text']}")
        say("")
    timers = [
        {
            "TIMER": name,
            "LAST RECORDED RUN": moment(each["lastRun"]),  # at most one a minute is recorded
            "FAILED": ", ".join(each["failed"]) or None,
        }
        for name, each in found.get("timers", {}).items()
    ]
    if found.get("storage") == "reachable":
        print_table(queue_rows(found["queues"]), "There are no queues yet.")
        print_table(timers, "No timer has run yet.")


def queue_rows(queues: Mapping[str, Any]) -> list[dict[str, object]]:
    """Return a table's rows of queues as ``status/health`` answers them."""
    return [
        {"QUEUE": name, "MESSAGES": each["messages"], "OLDEST (S)": each["oldestSeconds"]}
        for name, each in queues.items()
    ]
