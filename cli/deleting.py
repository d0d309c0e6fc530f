"""Deletes resources, and asks before anything is lost."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import click

from cli.deployment import Deployment
from cli.failure import REFUSED, CommandFailed
from cli.terminal import Found, counted, printable

_MOST_NAMED = 5


class Doomed(NamedTuple):
    """A resource to delete."""

    kind: str  # in words
    name: str
    path: str  # ARM path
    topic: str = ""  # of a subscription


asks_first = click.option("--yes", "-y", is_flag=True, help="Do not ask; scripts need this.")


def confirm(what: str, how_much: Callable[[], str]) -> None:
    """
    Return if the user at the terminal agrees to *what*; *how_much* goes on with the sentence.

    Raises:
        CommandFailed: they do not, or there is no terminal.
    """
    if not sys.stdin.isatty():
        raise CommandFailed(f"{what}: add --yes to do so without a terminal")
    if not click.confirm(f"{printable(what + how_much())}. Continue?", err=True):
        raise CommandFailed("nothing was done", REFUSED)


def delete(
    deployment: Deployment,
    doomed: Doomed,
    subscriptions: Callable[[], Iterable[tuple[str, str]]],
    *,
    yes: bool,
) -> Found:
    """
    Delete a resource, after asking unless *yes*.

    *subscriptions* returns topic and name of each event subscription that goes.

    Raises:
        CommandFailed: there is none, or the user does not agree.
    """
    kind, name, path, topic = doomed
    if not deployment.has(path):
        of_topic = f" of '{topic}'" if topic else ""
        raise CommandFailed(f"there is no {kind} '{name}'{of_topic}", REFUSED)
    what = f"{kind} {name} of {topic}" if topic else f"{kind} {name}"
    if not yes:
        confirm(f"this deletes {what}", lambda: _losses(deployment, doomed, subscriptions))
    deployment.delete(path)
    return Found({"deleted": name}, f"deleted {what}")


def subscriptions_of(deployment: Deployment, topics: Iterable[str]) -> Sequence[tuple[str, str]]:
    """Return topic and name of each event subscription of *topics*."""
    return [(topic, each["name"]) for topic in topics for each in deployment.subscriptions(topic)]


def _losses(
    deployment: Deployment,
    doomed: Doomed,
    subscriptions: Callable[[], Iterable[tuple[str, str]]],
) -> str:
    """Return which event subscriptions go as well, and how many events wait for them."""
    try:
        found = [*subscriptions()]
        waiting = _waiting(deployment, found)
    except CommandFailed:  # such as a row that can't be read
        return "; what goes with it can't be read"
    dropped = f"about {counted(waiting, 'waiting event')} would be dropped"
    if doomed.topic:
        return f"; {dropped}"
    names = [f"{topic}/{name}" for topic, name in found[:_MOST_NAMED]]
    names += ["…"] if len(found) > _MOST_NAMED else []
    theirs = f" ({', '.join(names)})" if names else ""
    return f" with {counted(len(found), 'event subscription')}{theirs}; {dropped}"


def _waiting(deployment: Deployment, subscriptions: Iterable[tuple[str, str]]) -> int:
    """Return how many events wait for event subscriptions, as ``status`` says it."""
    system_topics = deployment.system_topics()
    wanted = {
        (system_topics.get(topic, topic).lower(), name.lower()) for topic, name in subscriptions
    }
    return sum(
        each.get("waiting") or 0
        for topic in deployment.status("topics")["value"]
        for each in topic["subscriptions"]
        if (topic["name"].lower(), each["name"].lower()) in wanted
    )
