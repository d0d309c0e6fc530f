"""Defines what a check has found."""

from __future__ import annotations

from typing import Literal, NamedTuple

State = Literal["ok", "warning", "refused"]


class Finding(NamedTuple):
    """What was looked at, how it is, and what to do: of what is refused, `said` has it all."""

    what: str
    state: State
    said: str
    remedy: str = ""


def good(what: str, said: str) -> Finding:
    """Return that all is well."""
    return Finding(what, "ok", said)


def doubtful(what: str, said: str, remedy: str) -> Finding:
    """Return that the server starts, but is in danger."""
    return Finding(what, "warning", said, remedy)


def refused(what: str, said: str) -> Finding:
    """Return that no server starts like this; *said* has the remedy."""
    return Finding(what, "refused", said)
