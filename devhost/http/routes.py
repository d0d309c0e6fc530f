"""
ASP.NET route templates, as far as HTTP functions use them; the first route that fits wins.

Source: ASP.NET Core routing, Route constraints (2026); azure-functions-host
WebScriptHostHttpRoutesManager.cs (2024-10).
"""

from __future__ import annotations

import re
import sys
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from devhost.errors import BadFunctionError

# No longer than what 64 bits hold: Python refuses to read 4,301 digits.
_INT = re.compile(r"\s*[+-]?0{0,999}\d{1,19}\s*")
_DECIMAL = re.compile(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)\s*")
_PARAMETER = re.compile(r"\{(?P<inside>(?:[^{}]|\{\{|\}\})*)\}")
_INSIDE = re.compile(
    r"(?P<stars>\*{0,2})(?P<name>[^:=?*\s/]+)(?P<constraints>(?::(?:[^:=?(]|\([^)]*\)|\([^=]*\))+)*)"
    r"(?P<optional>\?)?(?:=(?P<default>.*))?",
    re.DOTALL,
)
_CONSTRAINT = re.compile(r":(?P<name>[A-Za-z]+)(?:\((?P<arguments>.*)\))?", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One `{…}` of a template."""

    name: str
    catches_all: bool = False
    optional: bool = False
    default: str | None = None
    checks: tuple[Callable[[str], bool], ...] = ()

    def accepts(self, text: str) -> bool:
        """Say whether *text* meets all constraints."""
        return all(check(text) for check in self.checks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """What stands between two slashes of a template."""

    pattern: re.Pattern[str]
    parameters: tuple[Parameter, ...]

    @property
    def may_be_missing(self) -> bool:
        """Whether a path may end before this segment."""
        return len(self.parameters) == 1 and (
            self.parameters[0].optional
            or self.parameters[0].catches_all
            or self.parameters[0].default is not None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A parsed template."""

    template: str
    segments: tuple[Segment, ...]

    def match(self, path: str) -> dict[str, str] | None:
        """Return the route parameters in *path* (no leading slash), or None if it does not fit."""
        values: dict[str, str] = {}
        rest: str | None = path or None
        for segment in self.segments:
            if rest is None:
                if not segment.may_be_missing:
                    return None
                continue
            if segment.parameters and segment.parameters[0].catches_all:
                values[segment.parameters[0].name] = rest
                rest = None
                continue
            part, slash, after = rest.partition("/")
            found = segment.pattern.fullmatch(part)
            if not part or not found:
                return None
            captured = zip(segment.parameters, found.groups(), strict=True)
            values |= {each.name: text for each, text in captured}
            rest = after if slash and after else None
        return self._complete(values) if rest is None else None

    def _complete(self, values: dict[str, str]) -> dict[str, str] | None:
        for parameter in (each for segment in self.segments for each in segment.parameters):
            if parameter.name not in values and parameter.default is not None:
                values[parameter.name] = parameter.default
            if parameter.name in values and not parameter.accepts(values[parameter.name]):
                return None
        return values


def parse(template: str) -> Route:
    """
    Parse a route template.

    Raises:
        BadFunctionError: it is malformed, or uses a constraint that this host does not know.
    """
    cleaned = template.strip().removeprefix("~/").strip("/")
    parts = _split(cleaned) if cleaned else []
    segments = tuple(_segment(part, template) for part in parts)
    for segment in segments[:-1]:
        if any(parameter.catches_all for parameter in segment.parameters):
            raise BadFunctionError(f"route {template!r}: a catch-all must come last")
    names = [each.name.lower() for segment in segments for each in segment.parameters]
    if len(set(names)) < len(names):
        raise BadFunctionError(f"route {template!r}: a parameter appears twice")
    return Route(template=template, segments=segments)


def _split(template: str) -> list[str]:
    # Not at a slash inside braces: a regex constraint may hold one.
    parts, depth, start = [], 0, 0
    for position, character in enumerate(template):
        depth += (character == "{") - (character == "}")
        if character == "/" and depth == 0:
            parts.append(template[start:position])
            start = position + 1
    return [*parts, template[start:]]


def _segment(text: str, template: str) -> Segment:
    if not text:
        raise BadFunctionError(f"route {template!r}: two slashes in a row")
    pattern, parameters, end = "", [], 0
    for match in _PARAMETER.finditer(text):
        pattern += _literal(text[end : match.start()], template) + "(.+)"
        parameters.append(_parameter(match["inside"], template))
        end = match.end()
    pattern += _literal(text[end:], template)
    if len(parameters) > 1 or pattern != "(.+)":
        for parameter in parameters:
            if parameter.catches_all or parameter.optional:
                raise BadFunctionError(
                    f"route {template!r}: {parameter.name} must have its segment to itself"
                )
    return Segment(pattern=re.compile(pattern, re.IGNORECASE), parameters=tuple(parameters))


def _literal(text: str, template: str) -> str:
    if "{" in text or "}" in text or "?" in text:
        raise BadFunctionError(f"route {template!r}: unexpected {text!r}")
    return re.escape(text)


def _parameter(inside: str, template: str) -> Parameter:
    match = _INSIDE.fullmatch(inside)
    if match is None:
        raise BadFunctionError(f"route {template!r}: cannot read {{{inside}}}")
    constraints = match["constraints"] or ""
    return Parameter(
        name=match["name"],
        catches_all=bool(match["stars"]),
        optional=bool(match["optional"]),
        default=match["default"],
        checks=tuple(_check(one, template) for one in _constraints(constraints)),
    )


def _constraints(text: str) -> list[str]:
    found, depth = [], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == ":" and depth == 0:
            found.append("")
        found[-1] += character
    return found


def _check(text: str, template: str) -> Callable[[str], bool]:
    match = _CONSTRAINT.fullmatch(text)
    make = _CHECKS.get(match["name"].lower()) if match else None
    if match is None or make is None:
        raise BadFunctionError(f"route {template!r}: unknown constraint {text[1:]!r}")
    try:
        return make(match["arguments"] or "")
    except (ValueError, IndexError, re.error) as fault:
        raise BadFunctionError(f"route {template!r}: cannot read {text[1:]!r}") from fault


def _whole(bits: int) -> Callable[[str], Callable[[str], bool]]:
    return lambda _: _between(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _between(low: int = -(2**63), high: int = 2**63 - 1) -> Callable[[str], bool]:
    def fits(text: str) -> bool:
        match = _INT.fullmatch(text)
        return bool(match) and low <= int(text) <= high

    return fits


def _range(arguments: str) -> Callable[[str], bool]:
    low, high = (int(number) for number in arguments.split(","))
    return _between(low, high)


def _length(arguments: str) -> Callable[[str], bool]:
    numbers = [int(number) for number in arguments.split(",")]
    low, high = numbers[0], numbers[-1]
    return lambda text: low <= len(text) <= high


def _regex(arguments: str) -> Callable[[str], bool]:
    pattern = re.compile(arguments.replace("{{", "{").replace("}}", "}"), re.IGNORECASE)
    return lambda text: bool(pattern.search(text))


def _is_guid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


def _is_datetime(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


_CHECKS: Mapping[str, Callable[[str], Callable[[str], bool]]] = {
    "int": _whole(32),
    "long": _whole(64),
    "bool": lambda _: lambda text: text.strip().lower() in ("true", "false"),
    "guid": lambda _: _is_guid,
    "alpha": lambda _: lambda text: bool(re.fullmatch(r"[A-Za-z]*", text)),
    "datetime": lambda _: _is_datetime,
    "decimal": lambda _: lambda text: bool(_DECIMAL.fullmatch(text)),
    "double": lambda _: lambda text: bool(_DECIMAL.fullmatch(text)),
    "float": lambda _: lambda text: bool(_DECIMAL.fullmatch(text)),
    "min": lambda arguments: _between(low=int(arguments)),
    "max": lambda arguments: _between(high=int(arguments)),
    "range": _range,
    "length": _length,
    "minlength": lambda arguments: _length(f"{arguments},{sys.maxsize}"),
    "maxlength": lambda arguments: _length(f"0,{arguments}"),
    "regex": _regex,
    "required": lambda _: bool,
}
