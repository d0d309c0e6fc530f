"""Reads a JSON or YAML file within limits, and knows the line of each of its members."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import yaml

from cli.failure import CommandFailed
from cli.terminal import printable, say
from shared.arm.member_names import Names, in_documented_case
from shared.clip import LONGEST, clip
from shared.events.paths import fold_case

Member = str | int
Members = tuple[Member, ...]  # the names and indexes that lead to a value

YAML_SUFFIXES = (".yaml", ".yml")
# Without --outfile, parameters would overwrite the compiled template.
_COMPILERS = {
    ".bicep": "az bicep build --file {path}",
    ".bicepparam": "az bicep build-params --file {path} --outfile {parameters}",
}
_MAX_NODES = 200_000  # aliases can stand for a lot
_MAX_EVENTS = 3 * _MAX_NODES  # names are events as well
_LONGEST_FAULT = 2 * LONGEST  # characters: names and values of a file may be as long as the file
_LONG_NAME = "the name of a member has at most 1,000 characters"  # libyaml's 1,024 bar its quotes
_TARGET = re.compile(r"[^.\[\]]+")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
MAX_CHARACTERS = 4 * 1024 * 1024  # of a file: the size of a template in Azure
MAX_SIZE = 2 * MAX_CHARACTERS  # of a value; aliases, variables and loops repeat what a file has
MAX_DEPTH = 100
MAX_FAULTS = 100  # that are reported
_OF_EACH = 16  # besides its characters


class BeyondLimits(ValueError):
    """A value is too large, or nested too deeply."""


def check_size(size: int) -> None:
    """
    Return if a value may have so many characters.

    Raises:
        BeyondLimits: it may not.
    """
    if size > MAX_SIZE:
        raise BeyondLimits(f"the value is larger than {MAX_SIZE:,} characters")


def size_of(value: Any) -> int:
    """
    Return about how many characters it takes to write a value, with what it has several times.

    Raises:
        BeyondLimits: there are too many, or they are nested too deeply.
    """
    size, rest = 0, [(value, 1)]
    while rest:
        each, depth = rest.pop()
        size += _OF_EACH
        inner: Any = ()
        if isinstance(each, str):
            size += len(each)
        elif isinstance(each, Mapping):
            size += names_size(each)
            inner = each.values()
        elif isinstance(each, list):
            inner = each
        check_size(size + _OF_EACH * len(inner))
        if inner and depth == MAX_DEPTH:
            raise BeyondLimits(f"the value is nested deeper than {MAX_DEPTH} levels")
        rest += [(one, depth + 1) for one in inner]
    return size


def names_size(names: Any) -> int:
    """Return how many characters *names* have, as `size_of` counts them."""
    return sum(map(len, names)) + _OF_EACH * len(names)


class _Loader(yaml.CSafeLoader):
    """Resolves the scalars of YAML 1.2's core schema that JSON has: no dates, no ``on`` and off."""


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"-?(0|[1-9][0-9]*)", list("-0123456789")),
    ("float", r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?", list("-0123456789")),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), _first
    )


class FileFaults(CommandFailed):
    """A file has faults: each is a line that begins with its place, as editors read them."""

    def __init__(self, *faults: str) -> None:
        lines = (printable(clip(each, _LONGEST_FAULT)) for each in faults)
        super().__init__("\n".join(dict.fromkeys(lines)))

    def show(self, file: object = None) -> None:
        """Print the faults on standard error."""
        del file
        say(self.message, err=True, colour="red")


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """A file."""

    path: Path
    value: Any
    lines: Mapping[Members, int]  # of each member as it is written, from 1

    def in_documented_case(self, names: Names) -> SourceFile:
        """
        Return the file with the documented *names* of its members.

        Raises:
            FileFaults: a member is there in two spellings.
        """
        value, repeated = in_documented_case(self.value, names)
        if repeated:
            raise FileFaults(*(self.root.fault_at(each.target, each.message) for each in repeated))
        return replace(self, value=value)

    def line(self, members: Members) -> int | None:
        """Return the line of a member, however its name is written; ``None``: it is missing."""
        return self.lines.get(members) or self._folded_lines.get(_folded(members))

    @cached_property
    def _folded_lines(self) -> Mapping[Members, int]:
        return {_folded(members): line for members, line in self.lines.items()}

    @property
    def root(self) -> Place:
        return Place(self, ())


class Place(NamedTuple):
    """A member of a file."""

    source: SourceFile
    members: Members

    def below(self, *members: Member) -> Place:
        return Place(self.source, (*self.members, *members))

    def at_target(self, target: str | None) -> Place:
        """Return the member below that an ARM error names, such as ``properties.labels[0]``."""
        names = _TARGET.findall(target or "")
        return self.below(*(int(each) if each.isdecimal() else each for each in names))

    @property
    def line(self) -> int:
        """The line of the member or, if it is missing, of the nearest one around it."""
        members = self.members
        while (line := self.source.line(members)) is None:
            members = members[:-1]
        return line

    def fault(self, message: str) -> str:
        """Return *message* with file, line and path."""
        where = f"{self.source.path}:{self.line}: "
        return f"{where}{self}: {message}" if self.members else f"{where}{message}"

    def fault_at(self, target: str | None, message: str) -> str:
        """Return an ARM error's *message* with file, line and path, which names *target* once."""
        return self.at_target(target).fault(message.removeprefix(f"{target} "))

    def __str__(self) -> str:
        parts = (f"[{each}]" if isinstance(each, int) else f".{each}" for each in self.members)
        return "".join(parts).removeprefix(".")


def _folded(members: Members) -> Members:
    return tuple(fold_case(each.strip()) if isinstance(each, str) else each for each in members)


def read_source(path: Path) -> SourceFile:
    """
    Read a file: YAML if its name says so, otherwise JSON.

    Raises:
        FileFaults: it can't be read, or is malformed; a repeated member is a fault as well.
    """
    try:
        with path.open(encoding="utf-8-sig") as file:
            text = file.read(MAX_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise FileFaults(f"{path}: {reason}") from None
    if len(text) > MAX_CHARACTERS:
        raise FileFaults(f"{path}: the file has more than {MAX_CHARACTERS:,} characters")
    if compiler := _COMPILERS.get(path.suffix.lower()):
        command = compiler.format(path=path, parameters=path.with_suffix(".parameters.json"))
        compiled = f"compile it with '{command}', and name the JSON file instead"
        raise FileFaults(f"{path}: this is Bicep: {compiled}")
    if path.suffix.lower() in YAML_SUFFIXES:
        value, lines = _read_yaml(path, text)
        return SourceFile(path=path, value=value, lines=lines)
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        where = f"{path}:{error.lineno}: column {error.colno}"
        raise FileFaults(f"{where}: this is not JSON: {error.msg}") from None
    except ValueError as error:
        raise FileFaults(f"{path}:1: this is not JSON: {error}") from None
    except RecursionError:
        raise FileFaults(f"{path}:1: its values are nested too deeply") from None
    # JSON is YAML but for these two, which change no line.
    as_yaml = _SURROGATE.sub(r"\\u0020", text.replace("\t", " "))
    _, lines = _read_yaml(path, as_yaml, "this JSON can't be read", _LONG_NAME)
    return SourceFile(path=path, value=value, lines=lines)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _read_yaml(
    path: Path, text: str, fault: str = "this is not YAML", problem: str = ""
) -> tuple[Any, dict[Members, int]]:
    lines: dict[Members, int] = {}
    try:
        _check_form(path, text)
        root = yaml.compose(text, Loader=_Loader)
        lines[()] = root.start_mark.line + 1 if root else 1
        value = _value(path, root, (), lines) if root else None
        size_of(value)
    except BeyondLimits as beyond:
        raise FileFaults(f"{path}:1: {beyond}") from None
    except RecursionError:
        raise FileFaults(f"{path}:1: its values are nested too deeply") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path}:{mark.line + 1}: column {mark.column + 1}" if mark else f"{path}:1"
        raise FileFaults(f"{where}: {fault}: {problem or error.problem}") from None
    except yaml.YAMLError as error:
        raise FileFaults(f"{path}:1: {fault}: {error}") from None
    return value, lines


def _check_form(path: Path, text: str) -> None:
    """Check what is too much for the parser: it takes a lot for each value, and nests its calls."""
    depth = count = 0
    for event in yaml.parse(text, Loader=_Loader):
        is_end = isinstance(event, yaml.CollectionEndEvent)
        count += not is_end
        depth += isinstance(event, yaml.CollectionStartEvent) - is_end
        line = event.start_mark.line + 1 if event.start_mark else 1
        if depth > MAX_DEPTH:
            raise FileFaults(f"{path}:{line}: its values are nested too deeply")
        if count > _MAX_EVENTS:
            raise FileFaults(f"{path}:{line}: the file has too many values")


def _value(path: Path, node: yaml.Node, members: Members, lines: dict[Members, int]) -> Any:
    """Return the value of a node; note the lines of what is in it."""
    if len(members) > MAX_DEPTH:
        raise FileFaults(f"{path}:{node.start_mark.line + 1}: its values are nested too deeply")
    if len(lines) > _MAX_NODES:
        raise FileFaults(f"{path}:{node.start_mark.line + 1}: the file has too many values")
    if isinstance(node, yaml.MappingNode):
        mapping: dict[str, Any] = {}
        for name, line, child in _entries(path, node):
            if name in mapping:
                twice = ".".join(map(str, (*members, name)))
                raise FileFaults(f"{path}:{line}: {twice}: this member is given twice")
            lines[*members, name] = line
            mapping[name] = _value(path, child, (*members, name), lines)
        return mapping
    if isinstance(node, yaml.SequenceNode):
        sequence = []
        for index, child in enumerate(node.value):
            lines[*members, index] = child.start_mark.line + 1
            sequence.append(_value(path, child, (*members, index), lines))
        return sequence
    return _scalar(node)


def _entries(path: Path, node: yaml.MappingNode) -> Iterator[tuple[str, int, yaml.Node]]:
    for key, child in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise FileFaults(f"{path}:{line}: the name of a member must be text")
        yield key.value, line, child


def _scalar(node: yaml.Node) -> Any:
    kind = node.tag.rpartition(":")[2]
    if kind == "null":
        return None
    if kind in {"bool", "int", "float"}:
        with suppress(ValueError):  # an explicit tag that does not fit
            return json.loads(node.value.lower())
    return node.value
