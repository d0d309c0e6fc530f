"""`pushgrid status`: tells whether a deployment works, and what waits in it."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import click

from cli.deployment import Deployment
from cli.failure import REFUSED, CommandFailed
from cli.holds import hold_table, read_holds
from cli.options import calls_deployment, prints_json
from cli.output import print_parts, print_table
from cli.terminal import print_json, say


@click.command("status")
@prints_json
@calls_deployment
@click.pass_context
def status(context: click.Context, deployment: Deployment, as_json: bool) -> None:
    """Show health, queues, timers and holds. The exit code is 1 if something is wrong."""
    found = deployment.status("health")
    if found.get("storage") == "reachable":
        try:
            found["holds"] = list(read_holds(deployment).values())
        except CommandFailed as error:
            if error.status != HTTPStatus.SERVICE_UNAVAILABLE:
                raise
            # The health is some seconds old: storage has gone since.
            unknown = f"what is paused or held is not known: {error.message}"
            found |= {"status": "unhealthy", "reasons": [*found["reasons"], unknown]}
    if as_json:
        print_json(found)
    else:
        _print(deployment.url, found)
    context.exit(0 if found["status"] == "healthy" else REFUSED)


def _print(url: str, found: dict[str, Any]) -> None:
    say(f"{url} is {found['status']}", colour="green" if found["status"] == "healthy" else "red")
    for reason in found.get("reasons", []):
        say(f"  {reason}")
    timers = [
        {
            "TIMER": name,
            "LAST RECORDED RUN": each["lastRun"],  # at most one a minute is recorded
            "FAILED": ", ".join(each["failed"]) or None,
        }
        for name, each in found.get("timers", {}).items()
    ]
    if found.get("storage") == "reachable":
        print_table(queue_rows(found["queues"]), "There are no queues yet.")
        print_table(timers, "No timer has run yet.")
    if "holds" in found:
        print_parts(hold_table(found["holds"]))


def queue_rows(queues: Mapping[str, Any]) -> list[dict[str, object]]:
    """Return a table's rows of queues as ``status/health`` answers them."""
    return [
        {"QUEUE": name, "MESSAGES": each["messages"], "OLDEST (S)": each["oldestSeconds"]}
        for name, each in queues.items()
    ]
