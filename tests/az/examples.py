"""Reads the examples in the JSON files here: commands for Azure CLI, and what each does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: In the order in which they are run.
TITLES = ("login", "topics", "subscriptions", "sources", "namespaces", "metrics")


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """
    A *command* of the shell, and what it does *here*.

    *editions* are those that have the example, or name the setting. *code* is the exit code.
    *shows* are members of the output by path, where ``length`` is that of a list; *says* is
    somewhere in it, or among the errors.
    """

    command: str
    here: str = "works"
    editions: str = ""
    code: int = 0
    shows: Mapping[str, Any] = field(default_factory=dict)
    says: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Examples whose requests are one conversation; variables that they assign are kept."""

    title: str
    about: str
    examples: tuple[Example, ...]


def read_groups() -> list[Group]:
    """Read all groups, in order."""
    return [_read(title) for title in TITLES]


def _read(title: str) -> Group:
    document = json.loads(Path(__file__).with_name(f"{title}.json").read_text("utf-8"))
    examples = tuple(Example(**each) for each in document["examples"])
    return Group(title=title, about=document["about"], examples=examples)
