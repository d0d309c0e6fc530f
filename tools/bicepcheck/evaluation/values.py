"""Values of a deployment that is only thought through: what Azure alone knows stays a name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


class Lined(dict[str, Any]):
    """An object that knows the lines of its members, and its own."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class Given:
    """
    A parameter's value that whoever deploys decides.

    *secret*: the template says so; *longest*: the letters that it allows.
    """

    name: str
    secret: bool = False
    longest: int | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """What a function makes of its arguments."""

    function: str
    args: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Text:
    """A string of which parts are not known."""

    parts: tuple[Any, ...]


@dataclass(eq=False, slots=True)
class Deployed:
    """A resource; *type* without version, *file* and *line* where it is declared."""

    type: str
    symbol: str
    file: str
    line: int
    existing: bool
    name: Any = None
    body: Lined = field(default_factory=lambda: Lined(0))
    parent: Deployed | None = None
    scope: Any = None

    def __repr__(self) -> str:
        return f"{self.file}:{self.symbol}"

    def at(self, *path: str) -> Any:
        """Return what the template sets under a path, or ``None``."""
        found: Any = self.body
        for key in path:
            if not isinstance(found, Mapping):
                return None
            found = found.get(key)
        return found

    def line_of(self, *path: str) -> int:
        """Return the line of what is set under a path, or of the nearest thing around it."""
        line = self.line
        found: Any = self.body
        for key in path:
            if not isinstance(found, Lined):
                break
            line = found.lines.get(key, found.line or line)
            found = found.get(key)
        return line


@dataclass(frozen=True, slots=True)
class Ref:
    """What a resource has after it is deployed."""

    of: Deployed
    path: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.of.symbol}.{'.'.join(self.path)}"


@dataclass(eq=False, slots=True)
class Outputs:
    """A module's result: *read* gives an output by name."""

    read: Any


def text_of(parts: list[Any]) -> Any:
    """Return a string of parts, a plain one where all are known."""
    flat: list[Any] = []
    for part in parts:
        for one in part.parts if isinstance(part, Text) else (part,):
            value = str(one).lower() if isinstance(one, bool) else one
            value = str(value) if isinstance(value, int) else value
            if isinstance(value, str) and flat and isinstance(flat[-1], str):
                flat[-1] += value
            elif value != "":
                flat.append(frozen(value))
    if all(isinstance(one, str) for one in flat):
        return "".join(flat)
    return flat[0] if len(flat) == 1 else Text(tuple(flat))


def frozen(value: Any) -> Any:
    """Return a value that can be compared and kept in sets."""
    if isinstance(value, Mapping):
        return tuple((key, frozen(one)) for key, one in value.items())
    return tuple(frozen(one) for one in value) if isinstance(value, list) else value


def known(value: Any) -> bool:
    """Whether a value is wholly known."""
    if isinstance(value, list | tuple):
        return all(known(one) for one in value)
    if isinstance(value, Mapping):
        return all(known(one) for one in value.values())
    return value is None or isinstance(value, str | int | bool)


def leaves(value: Any) -> Iterator[Any]:
    """Yield everything within a value that holds nothing else."""
    match value:
        case Mapping():
            for one in value.values():
                yield from leaves(one)
        case list() | tuple():
            for one in value:
                yield from leaves(one)
        case Text(parts=parts) | Made(args=parts):
            for one in parts:
                yield from leaves(one)
        case _:
            yield value


def plain(value: Any) -> str:
    """Return a string with ``…`` for what is not known."""
    if isinstance(value, Text):
        return "".join(part if isinstance(part, str) else "…" for part in value.parts)
    return value if isinstance(value, str) else "…"
