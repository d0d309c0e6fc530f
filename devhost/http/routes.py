"""
Matches route templates: literal segments, `{x}` for one segment, `{*x}` for the rest.

`{x:regex(…)}` takes a segment in which the expression is found, whatever its case. ASP.NET's other
constraints, defaults, optional and partial-segment parameters are refused.
Source: ASP.NET Core routing (2026); azure-functions-host WebScriptHostHttpRoutesManager.cs
(2024-10).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from devhost.errors import BadFunctionError

_LITERAL = re.compile(r"[^{}*?]+")
_PARAMETER = re.compile(
    r"\{(?P<rest>\*(?!.*:))?(?P<name>[A-Za-z_]\w*)(:regex\((?P<regex>[^{}\[\]]+)\))?\}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteTemplate:
    """A parsed template."""

    template: str
    pattern: re.Pattern[str]
    constraints: Mapping[str, re.Pattern[str]]  # by the names of its parameters, in order

    def match(self, path: str) -> dict[str, str] | None:
        """Return the route parameters in *path* (no leading slash), or None if it does not fit."""
        found = self.pattern.fullmatch(f"/{path}")
        if found is None:
            return None
        # `{*x}` may match nothing, and is no parameter then.
        given = zip(self.constraints, found.groups(), strict=True)
        params = {name: text for name, text in given if text}
        fits = all(self.constraints[name].search(text) for name, text in params.items())
        return params if fits else None


def parse(template: str) -> RouteTemplate:
    """
    Parse a route template.

    Raises:
        BadFunctionError: it is malformed, or has a segment of another form.
    """
    pattern, constraints = "", dict[str, re.Pattern[str]]()
    segments = template.strip().strip("/").split("/") if template.strip("/ ") else []
    for position, segment in enumerate(segments, 1):
        parameter = _PARAMETER.fullmatch(segment)
        if not parameter and not _LITERAL.fullmatch(segment):
            raise BadFunctionError(
                f"route {template!r}: segment {segment!r} is not supported; "
                "a segment is plain text, {name}, {name:regex(…)} or, at the end, {*name}"
            )
        if not parameter:
            pattern += f"/{re.escape(segment)}"
            continue
        if parameter["rest"] and position < len(segments):
            raise BadFunctionError(f"route {template!r}: {segment} must come last")
        if parameter["name"].lower() in map(str.lower, constraints):
            raise BadFunctionError(f"route {template!r}: parameter {parameter['name']} is repeated")
        constraints[parameter["name"]] = _constraint(template, parameter["regex"] or "")
        pattern += "(?:/(.*))?" if parameter["rest"] else "/([^/]+)"
    whole = re.compile(f"{pattern}/?", re.IGNORECASE | re.DOTALL)
    return RouteTemplate(template=template, pattern=whole, constraints=constraints)


def _constraint(template: str, regex: str) -> re.Pattern[str]:
    try:
        return re.compile(regex, re.IGNORECASE)
    except re.error as error:
        raise BadFunctionError(f"route {template!r}: {regex!r} can't be read: {error}") from None
