"""`pushgrid status`: tells whether a deployment works, what is wrong, and what waits in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from http import HTTPStatus
from typing import Any, NamedTuple

import click

from cli.deployment import Deployment
from cli.failure import REFUSED, CommandFailed
from cli.options import prints_found
from cli.output import moment, print_table
from cli.terminal import Found, counted, printable, say
from cli.timeline import span

Trouble = Mapping[str, Any]  # as ``status/topics`` answers it
Hold = Mapping[str, Any]  # as ``holds`` answers it
_WORDS = {
    "awaitingValidation": "awaiting validation",
    "deadLettering": "dead-lettering",
    "unknownAccount": "unknown account",
}


@click.command("status")
@prints_found
def status(deployment: Deployment) -> Found:
    """
    Show what is wrong, how many events wait, queues and timers.

    Each event subscription that is failing, held, paused, expired, awaiting validation, slow,
    dropping or dead-lettering events, or no longer signed, is named, the most harmful first: since
    when, why, and what to do. The exit code is 1 if something is wrong.
    """
    found = deployment.status("health")
    if "queues" in found:  # else storage does not answer
        try:
            troubles = read_troubles(deployment)
            found |= {**troubles._asdict(), "status": troubles.overall(found["status"])}
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
    if "queues" in found:
        print_table(queue_rows(found["queues"]), "There are no queues yet.")
        print_table(timers, "No timer has run yet.")


def queue_rows(queues: Mapping[str, Any]) -> list[dict[str, object]]:
    """Return a table's rows of queues as ``status/health`` answers them."""
    return [
        {"QUEUE": name, "MESSAGES": each["messages"], "OLDEST (S)": each["oldestSeconds"]}
        for name, each in queues.items()
    ]


class Troubles(NamedTuple):
    """What is wrong, the most harmful first."""

    waiting: Mapping[str, Any]  # of all event subscriptions
    troubles: Sequence[Trouble]
    limits: Sequence[Mapping[str, Any]]  # of requests, of each event subscription that has one
    holds: Sequence[Hold]  # of those that are paused or held

    def overall(self, health: str) -> str:
        """Return the word for the whole deployment, whose own *health* is so."""
        return "degraded" if self.troubles and health == "healthy" else health


def read_troubles(deployment: Deployment) -> Troubles:
    """
    Read what is wrong.

    Raises:
        CommandFailed: the deployment or its storage did not answer, or it refused.
    """
    found = deployment.status("topics")
    if "troubles" not in found:
        error = found.get("error", {}).get("message", "an earlier version runs there")
        raise CommandFailed(error, REFUSED, 503)
    listed = [
        ({"topic": topic["name"], "subscription": each["name"]}, each)
        for topic in found.get("value", ())
        for each in topic.get("subscriptions", ())
    ]
    limits = [named | each["limits"] for named, each in listed if each.get("limits")]
    holds = [
        named | {"paused": each["paused"], "held": each["held"]}
        for named, each in listed
        if each.get("paused") or each.get("held")
    ]
    return Troubles(found["waiting"], found["troubles"], limits, holds)


def hold_text(hold: Hold) -> str:
    """Return in one line since when it is paused and by whom, and until when it is held and why."""
    parts = []
    if paused := hold["paused"]:
        parts.append(f"paused since {moment(paused['since'])} by {printable(paused['by'])}")
    if held := hold["held"]:
        until = f" until {moment(held['until'])}" if held["until"] else ""
        parts.append(f"held{until}: {printable(held['why'])}")
    return "; ".join(parts)


def waiting_text(waiting: Mapping[str, Any]) -> str:
    """Return in a sentence how many events wait or are given up: about, since counts lag."""
    events = waiting["events"]
    text = f"{counted(events, 'event')} {'waits' if events == 1 else 'wait'}"
    text = f"about {text}" if events else text
    if age := waiting["oldestSeenSeconds"]:
        text += f", the oldest seen is {_age(age)} old"
    if given_up := waiting.get("awaitingBlob"):  # None: an earlier version runs there
        due = _age(waiting["blobsDueSeconds"])
        text += f"; {given_up} given up, due to be dead-lettered or dropped within {due}"
    return text


def trouble_text(trouble: Trouble) -> str:
    """Return in three lines what is wrong with one: since when, why, and what to do."""
    kinds = ", ".join(map(word, [trouble["kind"], *trouble["also"]]))
    since = f" since {moment(trouble['since'])}" if trouble["since"] else ""
    waiting = waiting_text({**trouble, "events": trouble["waiting"]})
    name = f"{trouble['topic']}/{trouble['subscription']}"
    return f"{name} is {kinds}{since}; {waiting}\n  {why_text(trouble)}\n  {trouble['remedy']}"


def trouble_row(trouble: Trouble) -> dict[str, Any]:
    """Return the row of a narrow table; its last column is why."""
    return {
        "SUBSCRIPTION": f"{trouble['topic']}/{trouble['subscription']}",
        "IS": word(trouble["kind"]),
        "WAITING": trouble["waiting"],
        "SEEN": _age(trouble["oldestSeenSeconds"]) if trouble["oldestSeenSeconds"] else "-",
        "BECAUSE OF": why_text(trouble),
    }


def why_text(trouble: Trouble) -> str:
    """Return why, in one line that no terminal obeys."""
    return printable(trouble["why"]) or "not known"


def word(kind: str) -> str:
    """Return the word for a kind of trouble."""
    return _WORDS.get(kind, kind)


def _age(seconds: float) -> str:
    return span(timedelta(seconds=round(seconds)))
