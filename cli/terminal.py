"""Prints text: nothing from a file, a deployment or an endpoint can control the terminal."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import click


class Found(NamedTuple):
    """What a command prints: a document for programs; a text or a function for people, if any."""

    document: Any
    shown: str | Callable[[], object] | None = None
    exit_code: int = 0


def counted(count: int, noun: str, form: str = "d") -> str:
    """Return *count*, in a *form* of the format language, and its noun: ``2 deliveries``."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:{form}} {noun if count == 1 else plural}"


def printable(text: str) -> str:
    """Return *text* on one line, with U+FFFD for each character that no terminal shows."""
    return _replaced(text, lambda _: "\N{REPLACEMENT CHARACTER}")


def printable_lines(text: str) -> str:
    """Return *text* with its lines, each of them printable."""
    return "\n".join(map(printable, text.split("\n")))


def printable_json(text: str) -> str:
    """Return JSON with the same meaning, in which such characters are escaped."""
    lines = text.split("\n")  # within a string a line feed is escaped already
    return "\n".join(_replaced(each, lambda found: json.dumps(found)[1:-1]) for each in lines)


def _replaced(text: str, replace: Callable[[str], str]) -> str:
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else replace(each) for each in text)


def say(text: str, *, err: bool = False, colour: str | None = None) -> None:
    """Print lines for people, and flush them."""
    click.secho(printable_lines(text), err=err, fg=colour)


def print_json(document: Any, *, indent: int | None = 2) -> None:
    """Print a document for programs; *indent* ``None``: on one line."""
    print_json_text(json.dumps(document, indent=indent, ensure_ascii=False))


def print_json_text(text: str) -> None:
    """Print JSON for programs, and flush it."""
    click.echo(printable_json(text))
