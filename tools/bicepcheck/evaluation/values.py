"""Values of an evaluated deployment; what only Azure knows stays symbolic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tools.bicepcheck.problems import Problem


class Located(dict[str, Any]):
    """An object that knows its own line and the lines of its members."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class Input:
    """The value of a parameter, which the deployer chooses."""

    name: str
    secret: bool = False  # the template marks it so
    max_length: int | None = None  # characters that it allows
    kind: str | None = None  # of its value, if it is declared


@dataclass(frozen=True, slots=True)
class Computed:
    """The unknown result of a function."""

    function: str
    args: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class PartialText:
    """A string of which some parts are unknown."""

    parts: tuple[Any, ...]


@dataclass(eq=False, slots=True)
class Deployed:
    """A resource."""

    type: str  # without version
    symbol: str
    file: str
    line: int  # of its declaration
    existing: bool
    name: Any = None
    body: Located = field(default_factory=lambda: Located(0))
    parent: Deployed | None = None
    scope: Any = None

    def __repr__(self) -> str:
        return f"{self.file}:{self.symbol}"

    def at(self, *path: str) -> Any:
        """Return the value that the template sets under a path, or ``None``."""
        found: Any = self.body
        for key in path:
            if not isinstance(found, dict):
                return None
            found = found.get(key)
        return found

    def items(self, *path: str) -> list[Located]:
        """Return the objects of the list under a path."""
        found = self.at(*path)
        return [one for one in found if isinstance(one, Located)] if isinstance(found, list) else []

    def line_of(self, *path: str) -> int:
        """Return the line of the value under a path, or of the nearest object around it."""
        line = self.line
        found: Any = self.body
        for key in path:
            if not isinstance(found, Located):
                break
            line = found.lines.get(key, found.line or line)
            found = found.get(key)
        return line

    def problem(self, code: str, message: str, *path: str, line: int | None = None) -> Problem:
        """Return a problem of the value under a path, or of the resource."""
        return Problem(self.file, line or self.line_of(*path), code, message)


@dataclass(frozen=True, slots=True)
class Ref:
    """A property of a resource that is known only after its deployment."""

    of: Deployed
    path: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.of.symbol}.{'.'.join(self.path)}"

    def reads(self, kind: str, *path: str) -> bool:
        """Return whether it is this property of a resource of that type."""
        return self.of.type == kind and self.path == path


@dataclass(eq=False, slots=True)
class ModuleOutputs:
    """A deployed module."""

    read: Callable[[str], Any]  # returns an output by name


def text_of(parts: list[Any]) -> Any:
    """Return the concatenation of *parts*: a plain string if all are known."""
    flat: list[Any] = []
    for part in parts:
        for one in parts_of(part):
            value = str(one).lower() if isinstance(one, bool) else one
            value = str(value) if isinstance(value, int) else value
            if isinstance(value, str) and flat and isinstance(flat[-1], str):
                flat[-1] += value
            elif value != "":
                flat.append(hashable(value))
    if all(isinstance(one, str) for one in flat):
        return "".join(flat)
    return flat[0] if len(flat) == 1 else PartialText(tuple(flat))


def parts_of(value: Any) -> tuple[Any, ...]:
    """Return the parts of a partly known string, or the value alone."""
    return value.parts if isinstance(value, PartialText) else (value,)


def hashable(value: Any) -> Any:
    """Return a value that can be compared and stored in sets."""
    if isinstance(value, dict):
        return tuple((key, hashable(one)) for key, one in value.items())
    return tuple(hashable(one) for one in value) if isinstance(value, list) else value


def is_known(value: Any) -> bool:
    """Return whether nothing in a value is symbolic."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return all(is_known(one) for one in value)
    return value is None or isinstance(value, str | int | bool)


def leaves(value: Any) -> Iterator[Any]:
    """Yield everything in a value that contains nothing else."""
    match value:
        case dict():
            inner: Any = value.values()
        case list() | tuple():
            inner = value
        case PartialText(parts=parts) | Computed(args=parts):
            inner = parts
        case _:
            yield value
            return
    for one in inner:
        yield from leaves(one)


def members(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield all members at every depth; items of a list under the path of the list."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield (*path, str(key)), one
            yield from members(one, (*path, str(key)))
    elif isinstance(value, list):
        for one in value:
            yield from members(one, path)


def shown(value: Any) -> str:
    """Return a string with ``…`` for what is unknown."""
    return "".join(part if isinstance(part, str) else "…" for part in parts_of(value))
